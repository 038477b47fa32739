import { registerCustomers } from './customer-commands.ts'
import { registerReseller } from './reseller-commands.ts'

export const commands = [registerCustomers, registerReseller] as const

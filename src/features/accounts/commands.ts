import { registerAccounts } from './account-commands.ts'
import { registerKeys } from './key-commands.ts'

export const commands = [registerAccounts, registerKeys] as const

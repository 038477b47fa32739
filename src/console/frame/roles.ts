import type { StaffRole } from '../people/events.ts'

/** Whose pages there are. A reseller is a customer as well; staff has no account. */
export type Role = 'customer' | 'reseller' | StaffRole

export const roles: readonly Role[] = ['customer', 'reseller', 'finance', 'operator']

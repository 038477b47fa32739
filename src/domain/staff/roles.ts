/** The roles of staff members. Customers and resellers have their pages through their account. */
export const staffRoles = ['finance', 'operator'] as const
export type StaffRole = (typeof staffRoles)[number]

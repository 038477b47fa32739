/** What a member of the staff may be granted; customers and resellers have their pages by their account. */
export const staffRoles = ['finance', 'operator'] as const
export type StaffRole = (typeof staffRoles)[number]

/** Whether the subject is a member of the staff. Otherwise it is an account. */
export const isStaff = (subjectId: string): boolean => subjectId.startsWith('stf_')

const minuteMs = 60_000
const hourMs = 60 * minuteMs
const dayMs = 24 * hourMs

/** The longest time of a session without use, and in all, milliseconds. */
export const lifetimes = {
  account: { idleMs: 12 * hourMs, wholeMs: 30 * dayMs },
  staff: { idleMs: 30 * minuteMs, wholeMs: 12 * hourMs },
} as const

/** The limits for the sessions of an account, or of a member of the staff. */
export const lifetimeOf = (subjectId: string) => (isStaff(subjectId) ? lifetimes.staff : lifetimes.account)

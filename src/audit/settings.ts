/** What the auditor does about an unacknowledged violation. Each action includes the ones before it. */
export const auditActions = ['alarm', 'stop-sealing', 'block'] as const
export type AuditAction = (typeof auditActions)[number]

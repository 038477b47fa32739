/** The effects of an unacknowledged violation. Each includes the effects before it. */
export const violationEffects = ['alarm', 'stop-sealing', 'block'] as const
export type ViolationEffect = (typeof violationEffects)[number]

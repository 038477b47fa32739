/** What a violation that nobody acknowledged causes; each does what the one before it does, too. */
export const violationEffects = ['alarm', 'stop-sealing', 'block'] as const
export type ViolationEffect = (typeof violationEffects)[number]

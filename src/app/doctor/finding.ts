/** `note`: information only, nothing is wrong. */
export type State = 'ok' | 'note' | 'wrong'

/** The outcome of one check. */
export type Outcome = {
  readonly state: State
  readonly found: string
  /** The remedy; null: nothing to do. */
  readonly todo: string | null
}

export type Finding = Outcome & { readonly check: string }

export const ok = (found: string): Outcome => ({ state: 'ok', found, todo: null })
export const note = (found: string, todo: string | null = null): Outcome => ({ state: 'note', found, todo })
export const wrong = (found: string, todo: string): Outcome => ({ state: 'wrong', found, todo })

/** Runs a check. A failure of the check is a finding, too. An outcome may name its own check. */
export const guarded = async (
  check: string,
  runCheck: () => Promise<Outcome | readonly (Outcome | Finding)[]>,
): Promise<readonly Finding[]> => {
  try {
    return [await runCheck()].flat().map((outcome) => ({ check, ...outcome }))
  } catch (error) {
    return [{ check, ...wrong((error as Error).message, 'fix this, then run doctor again') }]
  }
}

/** `note`: information only, nothing is wrong. */
export type State = 'ok' | 'note' | 'wrong'

/** The result of one check. */
export type Finding = {
  readonly check: string
  readonly state: State
  readonly found: string
  /** The remedy; null: nothing to do. */
  readonly todo: string | null
}

export const ok = (check: string, found: string): Finding => ({ check, state: 'ok', found, todo: null })
export const note = (check: string, found: string, todo: string | null = null): Finding => ({
  check,
  state: 'note',
  found,
  todo,
})
export const wrong = (check: string, found: string, todo: string): Finding => ({
  check,
  state: 'wrong',
  found,
  todo,
})

/** Runs a check. A failure of the check is a finding, too. */
export const guarded = async (
  check: string,
  runCheck: () => Promise<Finding | readonly Finding[]>,
): Promise<readonly Finding[]> => {
  try {
    return [await runCheck()].flat()
  } catch (error) {
    return [wrong(check, (error as Error).message, 'fix this, then run doctor again')]
  }
}

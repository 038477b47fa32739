/** `note`: worth knowing, and nothing is wrong. */
export type State = 'ok' | 'note' | 'wrong'

/** What one look came to. */
export type Finding = {
  readonly check: string
  readonly state: State
  readonly found: string
  /** What to do; null when there is nothing to do. */
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

/** A look that fails is itself a finding. */
export const guarded = async (
  check: string,
  look: () => Promise<Finding | readonly Finding[]>,
): Promise<readonly Finding[]> => {
  try {
    return [await look()].flat()
  } catch (error) {
    return [wrong(check, (error as Error).message, 'mend that, then look again')]
  }
}

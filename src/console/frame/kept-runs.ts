/** So many of the last runs are remembered. */
const kept = 20

/** Work that pages begin and whose state they show: the last runs of this process, newest first. */
export const createKeptRuns = <Run extends { readonly state: unknown }>() => {
  let runs: readonly Run[] = []
  return {
    list: (): readonly Run[] => runs,
    /** Adds a run; call what it gives with each later state. */
    begin: (first: Run): ((state: Run['state']) => void) => {
      let run = first
      runs = [run, ...runs].slice(0, kept)
      return (state) => {
        const next = { ...run, state }
        runs = runs.map((each) => (each === run ? next : each))
        run = next
      }
    },
  }
}

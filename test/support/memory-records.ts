import type { SandboxRecords } from '../../src/sandbox/sandbox-store.ts'

/** The records of the stand-ins, for as long as the process runs. */
export const memoryRecords = (): SandboxRecords => {
  const records = new Map<string, object>()
  const keyOf = (kind: string, id: string): string => JSON.stringify([kind, id])
  return {
    get: async <Body>(kind: string, id: string) => (records.get(keyOf(kind, id)) as Body) ?? null,
    change: async <Body extends object>(
      kind: string,
      id: string,
      change: (body: Body | null) => Body | null,
    ) => {
      const before = (records.get(keyOf(kind, id)) as Body) ?? null
      const after = change(before)
      if (after !== null) records.set(keyOf(kind, id), after)
      return after ?? before
    },
    all: async <Body>(kind: string) =>
      [...records]
        .filter(([key]) => (JSON.parse(key) as [string])[0] === kind)
        .map(([, body]) => body as Body),
  }
}

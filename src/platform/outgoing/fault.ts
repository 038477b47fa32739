const wordOf = (value: unknown): string | null =>
  typeof value === 'string' && /^\w{1,60}$/.test(value) ? value : null

/**
 * What kind of fault an error is: its code or its cause's (`ECONNREFUSED`), else its name. Never its text, which may hold
 * what the other side wrote.
 */
export const faultKind = (error: unknown): string => {
  const { name, code, cause } = error as { name?: unknown; code?: unknown; cause?: unknown }
  const inner = cause as { name?: unknown; code?: unknown } | undefined
  return wordOf(code) ?? wordOf(inner?.code) ?? wordOf(inner?.name) ?? wordOf(name) ?? 'fault'
}

import { z } from 'zod'

/** Which targets nobody may reach through this gateway, whatever its address. */
export type TargetPolicy = {
  readonly blockedPorts: ReadonlySet<number>
  /** Names, with all names below them, in lower case; and addresses. */
  readonly blockedHosts: ReadonlySet<string>
}

/** Mail that others would get as ours, and what Windows shares: the reasons why networks lose their addresses. */
const usualPorts = [25, 135, 137, 138, 139, 445, 465, 587, 2525] as const

export const usualPolicy: TargetPolicy = { blockedPorts: new Set(usualPorts), blockedHosts: new Set() }

const file = z.strictObject({
  blockedPorts: z.array(z.int().min(1).max(65_535)).default([...usualPorts]),
  blockedHosts: z
    .array(z.string().regex(/^[A-Za-z0-9_.:-]{1,253}$/, 'a host name or an address'))
    .default([]),
})

/**
 * The policy that a file holds, e.g. `{"blockedPorts": [25], "blockedHosts": ["example.com"]}`. What is left out is as usual.
 * @throws Error that says what is wrong where
 */
export const parseTargetPolicy = (text: string): TargetPolicy => {
  let value: unknown
  try {
    value = JSON.parse(text)
  } catch {
    throw new Error('the target policy must be JSON, e.g. {"blockedPorts": [25], "blockedHosts": []}')
  }
  const parsed = file.safeParse(value)
  if (!parsed.success)
    throw new Error(
      `the target policy has a mistake: ${parsed.error.issues
        .map(({ path, message }) => `${path.join('.') || 'the file'}: ${message}`)
        .join(
          '; ',
        )}. It has blockedPorts (whole numbers from 1 to 65535) and blockedHosts (names or addresses)`,
    )
  return {
    blockedPorts: new Set(parsed.data.blockedPorts),
    blockedHosts: new Set(parsed.data.blockedHosts.map((host) => host.toLowerCase())),
  }
}

/** A name is blocked by itself and by every name that it stands below. */
export const isBlockedHost = (host: string, { blockedHosts }: TargetPolicy): boolean => {
  if (blockedHosts.size === 0) return false
  for (let rest = host; ; ) {
    if (blockedHosts.has(rest)) return true
    const dot = rest.indexOf('.')
    if (dot === -1) return false
    rest = rest.slice(dot + 1)
  }
}

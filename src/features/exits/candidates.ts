import type { Coverage, ExitTerms } from '../../domain/exits/events.ts'
import { anyTargeting, type Targeting, type TokenProblem } from '../../domain/exits/line.ts'
import { createTemplate, type Template } from '../../domain/exits/username-template.ts'
import type { Family } from '../../domain/shared/order-terms.ts'
import { countryOfAlpha2 } from '../../kernel/countries.ts'
import type { Login } from '../../platform/vault/logins.ts'

/** A possible way out of a connection: an exit, or a supplier's gateway in one country. */
export type Candidate = {
  /** Exit and country. Identifies the candidate in a session. */
  readonly key: string
  readonly exitId: string
  readonly terms: ExitTerms
  readonly coverage: Coverage
  readonly login: Login | null
  /** Parsed templates of a supplier's username and password; null for an own exit. */
  readonly template: { readonly username: Template; readonly password: Template } | null
  readonly sandbox: boolean
  readonly states: ReadonlySet<string>
  readonly cities: ReadonlySet<string>
  readonly isps: ReadonlySet<string>
  readonly asns: ReadonlySet<number>
  /** 32 bits of its key, for rendezvous hashing. */
  readonly hash: number
}

/** FNV-1a with the finalizer of MurmurHash3, 32 bits. */
export const hash32 = (text: string, seed = 0x811c9dc5): number => {
  let hash = seed
  for (let at = 0; at < text.length; at += 1) hash = Math.imul(hash ^ text.charCodeAt(at), 0x01000193)
  return mix32(hash)
}

export const mix32 = (value: number): number => {
  let hash = value
  hash = Math.imul(hash ^ (hash >>> 16), 0x85ebca6b)
  hash = Math.imul(hash ^ (hash >>> 13), 0xc2b2ae35)
  return (hash ^ (hash >>> 16)) >>> 0
}

const codes = (places: readonly { readonly code: string }[]): ReadonlySet<string> =>
  new Set(places.map(({ code }) => code))

/** The candidates of an exit: one for each country. */
export const candidatesOf = (
  terms: ExitTerms,
  login: Login | null,
  sandbox: boolean,
): readonly Candidate[] => {
  const template =
    terms.via.kind === 'template' && login !== null
      ? { username: createTemplate(login.username), password: createTemplate(login.password) }
      : null
  return terms.covers.map((coverage) => {
    const key = `${terms.exitId} ${coverage.country}`
    return {
      key,
      exitId: terms.exitId,
      terms,
      coverage,
      login: template === null ? login : null,
      template,
      sandbox,
      states: codes(coverage.states),
      cities: codes(coverage.cities),
      isps: codes(coverage.isps),
      asns: new Set(coverage.asns),
      hash: hash32(key),
    }
  })
}

const avoidsExcluded = <Value>(
  requested: Value | null,
  available: ReadonlySet<Value>,
  excluded: readonly Value[],
  isSingleExit: boolean,
) => {
  if (excluded.length === 0) return true
  // A supplier may use any place within the targeting. Only a targeted place certainly avoids the excluded ones.
  return isSingleExit ? !excluded.some((each) => available.has(each)) : requested !== null
}

const isExcluded = (candidate: Candidate, { city, state, asn, not }: Targeting): boolean => {
  const isSingleExit = candidate.template === null
  const { states, cities, asns, coverage } = candidate
  const stateOfCity =
    city === null ? null : (coverage.cities.find(({ code }) => code === city)?.state ?? null)
  const effectiveState = state ?? stateOfCity
  return (
    not.countries.includes(coverage.country) ||
    (effectiveState !== null && not.states.includes(effectiveState)) ||
    !avoidsExcluded(effectiveState, states, not.states, isSingleExit) ||
    !avoidsExcluded(city, cities, not.cities, isSingleExit) ||
    !avoidsExcluded(asn, asns, not.asns, isSingleExit)
  )
}

/** Whether a connection with this targeting may use the candidate. */
export const matchesTargeting = (candidate: Candidate, targeting: Targeting): boolean => {
  const { country, state, city, isp, asn, os } = targeting
  return (
    (country === null || candidate.coverage.country === country) &&
    (state === null || candidate.states.has(state)) &&
    (city === null || candidate.cities.has(city)) &&
    (isp === null || candidate.isps.has(isp)) &&
    (asn === null || candidate.asns.has(asn)) &&
    (os === null || candidate.coverage.systems.includes(os)) &&
    !isExcluded(candidate, targeting)
  )
}

/** The fallback of `strict-off`: any exit in the country except excluded ones. */
export const countryOnly = ({ country, strict, udp, not }: Targeting): Targeting => ({
  ...anyTargeting,
  country,
  strict,
  udp,
  not,
})

/** Requirements of a connection other than its targeting. */
export type ConnectionNeeds = { readonly udp: boolean; readonly family: Family | null }

/** The exits in the memory of this process, including dead ones. Rebuilt with every change of the exits. */
export type ExitIndex = {
  /** Exits that accept new connections. */
  readonly serving: readonly Candidate[]
  /** All exits that were not removed. */
  readonly byKey: ReadonlyMap<string, Candidate>
  readonly byExit: ReadonlyMap<string, readonly Candidate[]>
  /** Matching exits, alive or not. */
  matching(targeting: Targeting, need: ConnectionNeeds): readonly Candidate[]
  /** A place that no exit ever had, so it is probably misspelt; null when all are known. */
  unknownPlace(targeting: Targeting): TokenProblem | null
}

/** All places that any exit ever had, by kind and country. */
const locationKeys = (covers: Iterable<Coverage>): ReadonlySet<string> => {
  const knownKeys = new Set<string>()
  for (const { country, states, cities, isps } of covers)
    for (const [kind, places] of [
      ['state', states],
      ['city', cities],
      ['isp', isps],
    ] as const)
      for (const { code } of places) knownKeys.add(`${country} ${kind} ${code}`)
  return knownKeys
}

export const indexOf = (
  candidates: readonly Candidate[],
  drained: readonly Candidate[],
  allCoverage: Iterable<Coverage>,
): ExitIndex => {
  const all = [...candidates, ...drained]
  const byCountry = Map.groupBy(candidates, ({ coverage }) => coverage.country)
  const knownKeys = locationKeys(allCoverage)
  return {
    serving: candidates,
    byKey: new Map(all.map((candidate) => [candidate.key, candidate])),
    byExit: Map.groupBy(all, ({ exitId }) => exitId),
    matching: (targeting, { udp, family }) =>
      (targeting.country === null ? candidates : (byCountry.get(targeting.country) ?? [])).filter(
        (candidate) =>
          (!udp || candidate.terms.udp) &&
          (family === null || candidate.terms.family === family) &&
          matchesTargeting(candidate, targeting),
      ),
    unknownPlace: (targeting) => {
      const { country } = targeting
      if (country === null) return null
      for (const kind of ['state', 'city', 'isp'] as const) {
        const code = targeting[kind]
        if (code !== null && !knownKeys.has(`${country} ${kind} ${code}`))
          return {
            token: `${kind}-${code}`,
            detail: `no ${kind} of ${countryOfAlpha2(country).name} has this name: see the geo lists`,
          }
      }
      return null
    },
  }
}

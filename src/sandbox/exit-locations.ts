import type { Coverage, ExitTerms } from '../domain/exits/events.ts'
import { slugOf } from '../domain/exits/line.ts'
import type { IpData } from '../features/free-list/index.ts'

/** A carrier of the demo catalogue's mobile lines, with the network of its phones: an ISP and its AS number. */
export type Carrier = {
  /** The id in the catalogue. */
  readonly id: string
  readonly country: string
  readonly network: readonly [name: string, asn: number]
}

export const carriers: readonly Carrier[] = [
  { id: 'att-us', country: 'us', network: ['AT&T Mobility', 20_057] },
  { id: 'tmobile-us', country: 'us', network: ['T-Mobile', 21_928] },
  { id: 'verizon-us', country: 'us', network: ['Verizon Wireless', 6_167] },
  { id: 'rogers-ca', country: 'ca', network: ['Rogers', 812] },
  { id: 'ee-uk', country: 'gb', network: ['EE', 12_576] },
  { id: 'vodafone-uk', country: 'gb', network: ['Vodafone UK', 25_135] },
  { id: 'telekom-de', country: 'de', network: ['Deutsche Telekom', 3_320] },
  { id: 'vodafone-de', country: 'de', network: ['Vodafone', 3_209] },
  { id: 'orange-fr', country: 'fr', network: ['Orange', 3_215] },
  { id: 'sfr-fr', country: 'fr', network: ['SFR', 15_557] },
  { id: 'kpn-nl', country: 'nl', network: ['KPN', 1_136] },
  { id: 'tim-it', country: 'it', network: ['TIM', 3_269] },
  { id: 'movistar-es', country: 'es', network: ['Telefónica', 3_352] },
  { id: 'plus-pl', country: 'pl', network: ['Plus', 8_374] },
  { id: 'telstra-au', country: 'au', network: ['Telstra', 1_221] },
  { id: 'claro-br', country: 'br', network: ['Claro', 28_573] },
]

/** A country with two states or regions, each with a city, and two ISPs with their AS numbers. */
type Country = {
  readonly country: string
  readonly localities: readonly (readonly [state: string, city: string])[]
  readonly isps: readonly (readonly [name: string, asn: number])[]
}

const countries: readonly Country[] = [
  {
    country: 'us',
    localities: [
      ['California', 'Los Angeles'],
      ['Texas', 'Dallas'],
      ['New York', 'New York'],
    ],
    isps: [
      ['Comcast Cable', 7922],
      ['Verizon', 701],
    ],
  },
  {
    country: 'ca',
    localities: [
      ['Ontario', 'Toronto'],
      ['Quebec', 'Montreal'],
    ],
    isps: [
      ['Bell Canada', 577],
      ['Rogers', 812],
    ],
  },
  {
    country: 'br',
    localities: [
      ['São Paulo', 'Campinas'],
      ['Rio de Janeiro', 'Niterói'],
    ],
    isps: [
      ['Vivo', 27_699],
      ['Claro', 28_573],
    ],
  },
  {
    country: 'gb',
    localities: [
      ['England', 'London'],
      ['Scotland', 'Glasgow'],
    ],
    isps: [
      ['BT', 2856],
      ['Sky UK', 5607],
    ],
  },
  {
    country: 'de',
    localities: [
      ['Berlin', 'Berlin'],
      ['Bavaria', 'Munich'],
    ],
    isps: [
      ['Deutsche Telekom', 3320],
      ['Vodafone', 3209],
    ],
  },
  {
    country: 'fr',
    localities: [
      ['Île-de-France', 'Paris'],
      ['Occitanie', 'Toulouse'],
    ],
    isps: [
      ['Orange', 3215],
      ['Free', 12_322],
    ],
  },
  {
    country: 'nl',
    localities: [
      ['North Holland', 'Amsterdam'],
      ['South Holland', 'Rotterdam'],
    ],
    isps: [
      ['KPN', 1136],
      ['Ziggo', 33_915],
    ],
  },
  {
    country: 'es',
    localities: [
      ['Madrid', 'Madrid'],
      ['Catalonia', 'Barcelona'],
    ],
    isps: [
      ['Telefónica', 3352],
      ['Orange', 12_479],
    ],
  },
  {
    country: 'it',
    localities: [
      ['Lombardy', 'Milan'],
      ['Lazio', 'Rome'],
    ],
    isps: [
      ['TIM', 3269],
      ['Fastweb', 12_874],
    ],
  },
  {
    country: 'in',
    localities: [
      ['Maharashtra', 'Mumbai'],
      ['Karnataka', 'Bengaluru'],
    ],
    isps: [
      ['Jio', 55_836],
      ['Airtel', 24_560],
    ],
  },
  {
    country: 'jp',
    localities: [
      ['Tokyo', 'Tokyo'],
      ['Osaka', 'Osaka'],
    ],
    isps: [
      ['NTT', 4713],
      ['KDDI', 2516],
    ],
  },
  {
    country: 'au',
    localities: [
      ['New South Wales', 'Sydney'],
      ['Victoria', 'Melbourne'],
    ],
    isps: [
      ['Telstra', 1221],
      ['Optus', 4804],
    ],
  },
  {
    country: 'pl',
    localities: [
      ['Mazovia', 'Warsaw'],
      ['Lesser Poland', 'Krakow'],
    ],
    isps: [
      ['Orange Polska', 5617],
      ['Play', 39_603],
    ],
  },
]

const systems = ['windows', 'mac', 'android', 'ios'] as const
type System = (typeof systems)[number]

const coverOf = (
  { country, localities, isps }: Country,
  at: number,
  network: Country['isps'][number] = isps[at % isps.length]!,
  system: System = systems[at % systems.length]!,
): Coverage => {
  const [state, city] = localities[at % localities.length]!
  const [isp, asn] = network
  return {
    country,
    states: [{ code: slugOf(state), name: state }],
    cities: [{ code: slugOf(city), name: city, state: slugOf(state) }],
    isps: [{ code: slugOf(isp), name: isp, asns: [asn] }],
    asns: [asn],
    systems: [system],
  }
}

/** A sandbox exit without a port yet: SOCKS5 with UDP, or HTTP. */
export type PlannedExit = {
  readonly terms: Omit<ExitTerms, 'via' | 'credentialId'>
  readonly kind: 'socks5' | 'http'
}

const families = ['residential', 'residential', 'residential', 'mobile', 'isp'] as const

const plannedExit = (
  terms: Pick<ExitTerms, 'exitId' | 'family' | 'covers' | 'carrier'>,
  at: number,
): PlannedExit => ({
  kind: at % 2 === 0 ? 'socks5' : 'http',
  terms: { ...terms, weight: 1, capacity: null, udp: at % 2 === 0 },
})

const inCountries = countries.flatMap((countryPlan) =>
  families.map((family, at) =>
    plannedExit(
      {
        exitId: `sandbox-${countryPlan.country}-${at + 1}`,
        family,
        // The ISP exit has the location of the first exit and the operating system of the third.
        covers: [coverOf(countryPlan, family === 'isp' ? 6 : at)],
        carrier: null,
      },
      at,
    ),
  ),
)

const ofCarriers = carriers.flatMap(({ id, country, network }) => {
  const countryPlan = countries.find((candidate) => candidate.country === country)
  return countryPlan === undefined
    ? []
    : (['android', 'ios', 'android'] as const).map((system, at) =>
        plannedExit(
          {
            exitId: `sandbox-${id}-${at + 1}`,
            family: 'mobile',
            covers: [coverOf(countryPlan, at, network, system)],
            carrier: id,
          },
          at,
        ),
      )
})

/**
 * Five exits in each country, one of them mobile and one of an ISP, so that every targeting of every product can be
 * tested. Also three exits for the line of each carrier, so that mobile rentals can rotate.
 */
export const plannedExits: readonly PlannedExit[] = [...inCountries, ...ofCarriers]

/** The simulated location of a sandbox address, so that the free proxies have countries and networks. */
export type SandboxLocation = {
  readonly country: string
  readonly state: string
  readonly city: string
  readonly asn: number
  readonly org: string
}

/** The locations. Each /29 of 127.80.0.0/12 has one of them, in turn. */
const localities: readonly SandboxLocation[] = plannedExits
  .filter(({ terms }) => terms.family === 'residential')
  .flatMap(({ terms: { covers } }) => covers)
  .flatMap(({ country, states, cities, isps }) => {
    const [state, city, isp] = [states[0], cities[0], isps[0]]
    const asn = isp?.asns[0]
    if (!state || !city || !isp || asn === undefined) return []
    return [{ country, state: state.name, city: city.name, asn, org: isp.name }]
  })

const first = 127 * 2 ** 24 + 80 * 2 ** 16
const size = 2 ** 20
const block = 8

const numberOf = (ip: string): number => ip.split('.').reduce((sum, octet) => sum * 256 + Number(octet), 0)
const textOf = (number: number): string =>
  [24, 16, 8, 0].map((shift) => Math.floor(number / 2 ** shift) % 256).join('.')

/** The location of an address; null for an address outside the sandbox. */
export const sandboxLocationOf = (ip: string): SandboxLocation | null => {
  const offset = ip.includes(':') ? -1 : numberOf(ip) - first
  if (offset < 0 || offset >= size) return null
  return localities[Math.floor(offset / block) % localities.length] ?? null
}

/** The sandbox address ranges of a network, in ascending order. */
export const sandboxRangesOf = (asn: number): readonly { readonly first: string; readonly last: string }[] =>
  Array.from({ length: size / block }, (_, at) => at)
    .filter((at) => localities[at % localities.length]?.asn === asn)
    .map((at) => ({
      first: textOf(first + at * block),
      last: textOf(first + at * block + block - 1),
    }))

/** Adds the sandbox addresses to the IP data, because no data package contains loopback addresses. */
export const withSandboxLocations = (data: IpData): IpData => {
  const orgOf = (ip: string): string | null => sandboxLocationOf(ip)?.org ?? null
  return {
    note: data.note,
    of: async (address) => {
      const location = sandboxLocationOf(address)
      if (location === null) return data.of(address)
      const { country, state, city, asn, org } = location
      return {
        countryCode: country,
        state,
        city,
        latitude: null,
        longitude: null,
        timeZone: null,
        asn,
        asnOrg: org,
      }
    },
    networkOf: async (address) => {
      const location = sandboxLocationOf(address)
      return location === null ? data.networkOf(address) : { asn: location.asn, org: location.org }
    },
    announced: async (asn) => {
      const ranges = sandboxRangesOf(asn)
      const realNetwork = await data.announced(asn)
      const [firstRange] = ranges
      if (firstRange === undefined) return realNetwork
      return {
        asn,
        org: orgOf(firstRange.first) ?? realNetwork?.org ?? `AS${asn}`,
        ranges: [...ranges, ...(realNetwork?.ranges ?? [])],
      }
    },
  }
}

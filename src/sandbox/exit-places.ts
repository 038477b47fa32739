import type { Cover, ExitTerms } from '../gateway/exits/events.ts'

/** A state or region with a city of it, and a provider with its AS number: of each country two. */
type Country = {
  readonly country: string
  readonly places: readonly (readonly [state: string, city: string])[]
  readonly isps: readonly (readonly [name: string, asn: number])[]
}

const countries: readonly Country[] = [
  {
    country: 'us',
    places: [
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
    places: [
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
    places: [
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
    places: [
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
    places: [
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
    places: [
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
    places: [
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
    places: [
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
    places: [
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
    places: [
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
    places: [
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
    places: [
      ['New South Wales', 'Sydney'],
      ['Victoria', 'Melbourne'],
    ],
    isps: [
      ['Telstra', 1221],
      ['Optus', 4804],
    ],
  },
]

const systems = ['windows', 'mac', 'android', 'ios'] as const

/** As the geo lists spell it: the names above have nothing but letters, accents, spaces and hyphens. */
const codeOf = (name: string): string =>
  name
    .normalize('NFKD')
    .replaceAll(/\p{M}/gu, '')
    .toLowerCase()
    .replaceAll(/[^a-z0-9]+/g, '_')

const coverOf = (of: Country, at: number): Cover => {
  const [state, city] = of.places[at % of.places.length]!
  const [isp, asn] = of.isps[at % of.isps.length]!
  return {
    country: of.country,
    states: [{ code: codeOf(state), name: state }],
    cities: [{ code: codeOf(city), name: city, state: codeOf(state) }],
    isps: [{ code: codeOf(isp), name: isp, asns: [asn] }],
    asns: [asn],
    systems: [systems[at % systems.length]!],
  }
}

/** An exit of the sandbox before it has a port: SOCKS5 and with UDP, or HTTP. */
export type PlannedExit = {
  readonly terms: Omit<ExitTerms, 'via' | 'credentialId'>
  readonly kind: 'socks5' | 'http'
}

const families = ['residential', 'residential', 'residential', 'mobile', 'isp'] as const

/** Five exits in each of a dozen countries, one of them mobile and one an ISP's, so that every targeting of every product can be tried. */
export const plannedExits: readonly PlannedExit[] = countries.flatMap((of) =>
  families.map((family, at) => ({
    kind: at % 2 === 0 ? ('socks5' as const) : ('http' as const),
    terms: {
      exitId: `sandbox-${of.country}-${at + 1}`,
      family,
      // The ISP's has the place of the first and the system of the third.
      covers: [coverOf(of, family === 'isp' ? 6 : at)],
      weight: 1,
      capacity: null,
      udp: at % 2 === 0,
      carrier: null,
    },
  })),
)

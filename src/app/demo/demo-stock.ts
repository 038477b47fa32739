import { countriesOf, ratesIn } from '../../domain/catalog/catalog.ts'
import { type DedicatedProduct, isDedicated, type ProductTerms } from '../../domain/catalog/product.ts'
import { addressesHost } from '../../domain/shared/endpoint-fields.ts'
import type { StockedAddress, StockedEndpoint } from '../../domain/stock/events.ts'
import type { Stocking } from '../../features/stock/index.ts'

/** Demo addresses per pool (a product in a country, for mobile also a carrier and service). */
const poolSizes = { isp: 60, ipv4: 100, ipv6: 120, mobile: 12, residential: 0 } as const

const cities: Readonly<Record<string, readonly string[]>> = {
  AUS: ['Sydney', 'Melbourne'],
  BRA: ['São Paulo', 'Rio de Janeiro'],
  CAN: ['Toronto', 'Montreal'],
  DEU: ['Frankfurt', 'Berlin'],
  ESP: ['Madrid', 'Barcelona'],
  FRA: ['Paris', 'Lyon'],
  GBR: ['London', 'Manchester'],
  ITA: ['Milan', 'Rome'],
  JPN: ['Tokyo', 'Osaka'],
  NLD: ['Amsterdam', 'Rotterdam'],
  POL: ['Warsaw', 'Krakow'],
  SGP: ['Singapore'],
  USA: ['Dallas', 'New York', 'Los Angeles', 'Chicago'],
}

/** RFC 5398 reserves these AS numbers for documentation. */
const firstDocumentationAsn = 64_496
const documentationAsns = 16

/**
 * IPv4 addresses are in 127.0.0.0/8. A Linux machine answers on all of them, so a rented address works on the gateway's
 * machine. IPv6 addresses are in 2001:db8::/32, which RFC 3849 reserves for documentation. No machine has them, so they
 * are reached through a supplier, which the sandbox simulates.
 */
const demoAddress = (family: 'v4' | 'v6', block: number, host: number): string =>
  family === 'v6'
    ? `2001:db8:${(block + 1).toString(16)}::${(host + 1).toString(16)}`
    : `127.${18 + Math.floor(block / 256)}.${block % 256}.${host + 1}`

const demoSupplier: StockedEndpoint = {
  protocol: 'socks5',
  host: addressesHost,
  port: 1080,
  udp: true,
  credentialId: null,
}

type Pool = Pick<StockedAddress, 'carrierId' | 'service'>

const poolsOf = (product: DedicatedProduct, country: string): readonly Pool[] => {
  const pools = ratesIn(product, country).map(({ target: { carrierId, service } }) => ({
    carrierId,
    service,
  }))
  return [...new Map(pools.map((pool) => [JSON.stringify(pool), pool])).values()]
}

/**
 * Stock for all active and parked products with dedicated addresses: some thousand addresses from reserved ranges.
 * The result depends only on the catalogue.
 */
export const demoStock = (products: readonly ProductTerms[]): readonly Stocking[] => {
  // Each pool has its own /24 or /48, so no address occurs twice.
  let nextBlock = 0
  return products
    .filter((product) => product.state !== 'retired')
    .filter(isDedicated)
    .flatMap((product) =>
      countriesOf(product).map((country) => ({
        productId: product.id,
        country,
        addresses: poolsOf(product, country).flatMap((pool): StockedAddress[] => {
          const ownBlock = nextBlock++
          const asn = firstDocumentationAsn + (ownBlock % documentationAsns)
          const countryCities = cities[country] ?? []
          return Array.from({ length: poolSizes[product.family] }, (_, host) => ({
            ip: demoAddress(product.family === 'ipv6' ? 'v6' : 'v4', ownBlock, host),
            city: countryCities[host % countryCities.length] ?? null,
            asn,
            asnOrg: `Example Network ${asn}`,
            ...pool,
            ...(product.family === 'ipv6' && { endpoint: demoSupplier }),
          }))
        }),
      })),
    )
}

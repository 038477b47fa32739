import { z } from 'zod'
import { expiringMs, type FoundProxy, type ProxyStatus, proxyStatuses } from '../../../projections/proxies.ts'
import { families } from '../../domain/shared/order-terms.ts'
import { isoTime } from '../../kernel/clock.ts'
import { namedEnum } from '../../platform/http/named-enum.ts'
import { customerField, customerIdField } from '../accounts/index.ts'

const instant = z.string().meta({ format: 'date-time' })

/** One rented address (research: proxies, 2.4). */
export const ProxyRecord = z
  .object({
    proxyId: z.string(),
    orderId: z.string(),
    productId: z.string(),
    family: namedEnum('ProductFamily', families),
    ip: z.string().meta({ description: 'The exit address: the address that targets see.' }),
    host: z.string().meta({
      description:
        'The host to connect to: the address itself, or the gateway, which identifies the rental by its username.',
    }),
    ports: z.object({
      http: z.int(),
      https: z.int().nullable().meta({
        description: 'The port for a TLS connection to the proxy. Null: the rental has no TLS port.',
      }),
      socks5: z.int(),
    }),
    username: z.string(),
    password: z.string(),
    country: z.string().meta({ description: 'The country as an ISO 3166-1 alpha-3 code.' }),
    city: z.string().nullable(),
    asn: z.int().nullable(),
    asnOrg: z.string().nullable(),
    carrier: z.string().nullable(),
    service: namedEnum('ProxyService', ['dedicated', 'shared']).nullable(),
    rotation: namedEnum('ProxyRotation', ['by_link', 'interval']).nullable(),
    rotationMinutes: z.int().nullable(),
    rotateUrl: z.string().nullable().meta({
      description:
        'The rotation URL of a mobile line with rotation by link. A GET request to this URL gives the line another exit. The URL requires no key: keep it secret like a password. Null: any other rental.',
    }),
    status: namedEnum('ProxyStatus', proxyStatuses).meta({
      description:
        'The status of the rental. `expiring`: 72 hours or less before the end of the rental. `expired`: after the end or the refund of the rental.',
    }),
    periodDays: z.int(),
    autoExtend: z
      .boolean()
      .meta({ description: 'Always false: a rental ends unless `POST /api/v1/proxies/extend` extends it.' }),
    label: z.string(),
    customerId: customerIdField,
    customer: customerField,
    createdAt: instant,
    expiresAt: instant,
  })
  .meta({ id: 'Proxy' })
export type ProxyRecord = z.infer<typeof ProxyRecord>

/** Computes expiring and expired at the time of the read, so that they apply at once. */
export const proxyStatus = (row: FoundProxy, nowMs: number): ProxyStatus => {
  if (row.releasedAt !== null || row.expiresAt <= isoTime(nowMs)) return 'expired'
  return row.expiresAt <= isoTime(nowMs + expiringMs) ? 'expiring' : 'active'
}

/** The address of the gateway. */
export type GatewayAddress = {
  readonly host: string
  readonly port: number
  /** Null: no port has TLS. */
  readonly tls: { readonly port: number } | null
}

/** A rental without its secrets. */
export type ProxyFacts = Omit<ProxyRecord, 'username' | 'password' | 'rotateUrl'>

/**
 * The public fields of a rental.
 * @param customer the reseller's own id of the rental's customer
 * @param gateway its host and ports; it listens on these ports on every rented address of its machines too
 */
export const proxyFacts = (
  row: FoundProxy,
  nowMs: number,
  customer: string | null,
  gateway: GatewayAddress,
): ProxyFacts => ({
  proxyId: row.proxyId,
  orderId: row.orderId,
  productId: row.productId,
  family: row.family,
  ip: row.ip,
  host: row.endpoint === null ? row.ip : gateway.host,
  ports: {
    http: gateway.port,
    // The TLS certificate is for the gateway's host name.
    https: row.endpoint === null ? null : (gateway.tls?.port ?? null),
    socks5: gateway.port,
  },
  country: row.country,
  city: row.city,
  asn: row.asn,
  asnOrg: row.asnOrg,
  carrier: row.carrierId,
  service: row.service,
  rotation: row.rotationMinutes === null ? null : row.rotationMinutes === 0 ? 'by_link' : 'interval',
  rotationMinutes: row.rotationMinutes,
  status: proxyStatus(row, nowMs),
  periodDays: row.periodDays,
  autoExtend: false,
  label: row.label ?? '',
  customerId: row.customerId,
  customer,
  createdAt: row.createdAt,
  expiresAt: row.releasedAt !== null && row.releasedAt < row.expiresAt ? row.releasedAt : row.expiresAt,
})

export const proxyRecord = (
  row: FoundProxy,
  secrets: Pick<ProxyRecord, 'username' | 'password' | 'rotateUrl'>,
  nowMs: number,
  customer: string | null,
  gateway: GatewayAddress,
): ProxyRecord => ({ ...proxyFacts(row, nowMs, customer, gateway), ...secrets })

/** A rental as one line of text: `host:port:username:password`, HTTP port. */
export const proxyLine = ({ host, ports, username, password }: ProxyRecord): string =>
  `${host.includes(':') ? `[${host}]` : host}:${ports.http}:${username}:${password}`

export const proxyExample: ProxyRecord = {
  proxyId: 'prx_0b9f4c5d2e315a6fb7c8d9e0f1a2b3c4',
  orderId: 'ord_5f3c2a1b9d8e5f60a1b2c3d4e5f60718',
  productId: 'isp-static',
  family: 'isp',
  ip: '198.18.0.7',
  host: '198.18.0.7',
  ports: { http: 9000, https: null, socks5: 9000 },
  username: 'u7k2m9x4',
  password: 'p4ssw0rdp4ssw0rd1234',
  country: 'USA',
  city: 'Dallas',
  asn: 7922,
  asnOrg: 'Comcast',
  carrier: null,
  service: null,
  rotation: null,
  rotationMinutes: null,
  rotateUrl: null,
  status: 'active',
  periodDays: 30,
  autoExtend: false,
  label: '',
  customerId: null,
  customer: null,
  createdAt: '2026-11-21T02:30:00.000Z',
  expiresAt: '2026-12-21T02:30:00.000Z',
}

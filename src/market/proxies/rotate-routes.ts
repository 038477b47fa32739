import { timingSafeEqual } from 'node:crypto'
import type pg from 'pg'
import { z } from 'zod'
import { type Clock, isoTime } from '../../kernel/clock.ts'
import type { ProxyId } from '../../kernel/ids.ts'
import { type Route, route } from '../../platform/http/route.ts'
import type { Credentials } from '../../platform/vault/credentials.ts'
import { proxyExample } from './record.ts'
import { type Rotating, rotateEveryMs, rotateNow, rotatePath } from './rotate.ts'

const instant = z.string().meta({ format: 'date-time' })

/** The link of a mobile rental that gives it another exit. */
export const proxyRotateRoutes = (deps: {
  readonly pool: pg.Pool
  readonly credentials: Credentials
  readonly clock: Clock
}): readonly Route[] => {
  const { pool, credentials, clock } = deps

  const isTokenOf = (id: string, token: string): boolean => {
    const right = Buffer.from(credentials.rotationToken(id as ProxyId))
    const given = Buffer.from(token)
    return right.length === given.length && timingSafeEqual(right, given)
  }

  return [
    route({
      method: 'GET',
      path: rotatePath,
      operationId: 'rotateProxy',
      summary: 'Give a mobile line another exit',
      description:
        'The `rotateUrl` of a rented mobile line that rotates by link. New connections go out through the next live exit of its carrier within a second; those that are open stay. Once in ten seconds.',
      tag: 'Proxies',
      access: 'public',
      writes: false,
      // Whoever has the link needs no description, and nobody else can use it.
      hidden: true,
      params: z.object({ id: z.string(), token: z.string() }),
      examples: { params: { id: proxyExample.proxyId, token: 'k3Vq9ZtR1bXw7LmC0dYs5NfGh2JpA8eT' } },
      responses: {
        200: {
          description: 'It goes out through another exit.',
          body: z
            .object({ proxyId: z.string(), rotatedAt: instant, nextAt: instant })
            .meta({ id: 'ProxyRotation' }),
          example: {
            proxyId: proxyExample.proxyId,
            rotatedAt: '2026-11-21T02:31:00.000Z',
            nextAt: '2026-11-21T02:31:10.000Z',
          },
        },
      },
      errors: ['not_found', 'rental_ended', 'rate_limited'],
      handler: async ({ params: { id, token } }) => {
        const nowMs = clock()
        const { rows } = isTokenOf(id, token)
          ? await pool.query<Rotating>(
              `select rotation_minutes, released_at is not null or expires_at <= $2::timestamptz as over
                 from read.proxies where proxy_id = $1::text`,
              [id, isoTime(nowMs)],
            )
          : { rows: [] }
        const [row] = rows
        await rotateNow(pool, id, row ?? null, nowMs)
        return {
          status: 200,
          body: { proxyId: id, rotatedAt: isoTime(nowMs), nextAt: isoTime(nowMs + rotateEveryMs) },
        }
      },
    }),
  ]
}

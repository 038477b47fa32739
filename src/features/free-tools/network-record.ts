import { z } from 'zod'
import { pageShape } from '../../platform/http/query.ts'
import { entryExample, ListEntry } from '../free-list/index.ts'

const count = (description: string) => z.int().meta({ description })

const Network = z
  .object({
    asn: z.int(),
    name: z.string(),
    country_code: z
      .string()
      .nullable()
      .meta({ description: 'Where most of its endpoints are; alpha-2, lower case.' }),
    live: count('Proxies that answered their last check.'),
    not_answering: count('Endpoints that answered once and not at their last check.'),
    never_answered: count('Addresses that never answered a check.'),
  })
  .meta({ id: 'FreeNetwork' })

export type Network = z.output<typeof Network>

export const NetworkPage = z
  .object({
    networks: z.array(Network),
    ...pageShape,
    counted_at: z
      .string()
      .meta({ format: 'date-time', description: 'When those that do not answer were counted.' }),
    note: z
      .string()
      .nullable()
      .meta({ description: 'What is missing, because the service has no data for it.' }),
  })
  .meta({ id: 'FreeNetworks' })

const date = z.string().meta({ format: 'date' })

export const NetworkRecord = z
  .object({
    asn: z.int(),
    name: z.string(),
    counts: z.object({
      live: count('Proxies that answered their last check.'),
      not_answering: count('Endpoints that answered once and not at their last check.'),
      retesting: count('Those of them that are checked again and again: all, for ever.'),
      never_answered: count('Addresses that never answered a check.'),
    }),
    live: z.array(ListEntry),
    not_answering: z.array(
      z.object({
        endpoint: z.string(),
        location: z.string().nullable(),
        last_answered: date,
        answered: z.string().meta({ description: 'Times answered of times checked, for people.' }),
        successes: z.int(),
        checks: z.int(),
      }),
    ),
    never_answered: z.array(z.object({ address: z.string(), tests: z.int(), last_tested: date })),
    note: z.string().nullable().meta({ description: 'Says so where no proxy of the network is live.' }),
  })
  .meta({ id: 'FreeNetworkRecord' })

export type NetworkRecord = z.output<typeof NetworkRecord>

const example: Network = {
  asn: 7922,
  name: 'Comcast Cable Communications, LLC',
  country_code: 'us',
  live: 12,
  not_answering: 340,
  never_answered: 1204,
}

export const pageExample = {
  networks: [example],
  total: 1,
  limit: 50,
  offset: 0,
  counted_at: '2026-11-21T02:31:00.000Z',
  note: null,
}

export const recordExample: NetworkRecord = {
  asn: example.asn,
  name: example.name,
  counts: { live: 1, not_answering: 340, retesting: 340, never_answered: 1204 },
  live: [entryExample],
  not_answering: [
    {
      endpoint: '203.0.113.4:8080',
      location: 'Dallas, US',
      last_answered: '2026-11-20',
      answered: '412 / 530',
      successes: 412,
      checks: 530,
    },
  ],
  never_answered: [{ address: '203.0.113.5:3128', tests: 18, last_tested: '2026-11-20' }],
  note: null,
}

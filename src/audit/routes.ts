import type pg from 'pg'
import { z } from 'zod'
import { positionToken } from '../kernel/log-position.ts'
import type { EventLog } from '../platform/eventstore/port.ts'
import { pageShape, pagingCodes, pagingQuery, positionField } from '../platform/http/query.ts'
import { exampleRows, reportShape, rowFields } from '../platform/http/report-rows.ts'
import { type Route, route } from '../platform/http/route.ts'
import { findingText } from './checks/finding.ts'
import { checkRuns } from './checks/record-checks.ts'
import { listSeals } from './seals/seal-queries.ts'
import { listVerifications, type Verification } from './verification-runs.ts'

const hex = (bytes: number, description: string) =>
  z
    .string()
    .regex(new RegExp(`^[0-9a-f]{${2 * bytes}}$`))
    .meta({ description })

const Seals = z
  .object({
    seals: z.array(
      z
        .object({
          eventId: z.string(),
          throughOrdinal: z
            .int()
            .min(1)
            .meta({ description: 'It covers the first so many events of the log.' }),
          throughEventId: z.string().meta({ description: 'The last of them.' }),
          digest: hex(32, 'The running digest after it, SHA-256.'),
          sealedAt: z.iso.datetime(),
          publicKey: hex(32, 'Ed25519.'),
          checkedEvents: z.int().min(0).optional().meta({
            description:
              'How many of the events since the seal before it the sealing process had checked itself. Older seals do not say.',
          }),
          signature: hex(64, 'Over the statement of the seal.'),
        })
        .meta({ id: 'Seal' }),
    ),
    ...pageShape,
    complete: reportShape.complete,
  })
  .meta({ id: 'SealList' })

const Verifications = z
  .object({
    verifications: z.array(
      z
        .object({
          runId: z.string(),
          logId: z.string(),
          actor: z.string().meta({ description: 'Who ran it.' }),
          startedAt: z.iso.datetime(),
          finishedAt: z.iso.datetime().nullable(),
          outcome: z.enum(['running', 'clean', 'differs', 'failed']),
          result: z
            .object({
              position: positionField('Up to this position of the log.'),
              events: z.int().min(0),
              seals: z.int().min(0),
              sealedThrough: z
                .int()
                .min(0)
                .meta({ description: 'Good seals cover the first so many events.' }),
              unsealed: z.int().min(0).meta({ description: 'Events that no good seal covers yet.' }),
              digest: z.string().meta({ description: 'The running digest after the last event.' }),
              groups: z.array(
                z.object({
                  group: z.string(),
                  position: positionField('How far the group was compared.'),
                  tables: z.int().min(0),
                  rows: z.int().min(0),
                }),
              ),
              findingCount: z.int().min(0),
              findings: z.array(z.string()).meta({ description: 'What differs and where; the first ones.' }),
            })
            .nullable()
            .meta({ description: 'Null while it runs and when it failed.' }),
        })
        .meta({ id: 'Verification' }),
    ),
    chain: z
      .object({
        links: z.int().min(0).meta({ description: 'How many runs are chained, on this page or not.' }),
        digest: hex(32, 'The digest after the last of them: keep it elsewhere. Null without one.').nullable(),
        findings: z.array(z.string()).meta({
          description:
            'Where the chain breaks: runs that were changed, removed or inserted, the first twenty. Empty: none was.',
        }),
      })
      .meta({ id: 'VerificationChain' }),
    ...pageShape,
    complete: reportShape.complete,
  })
  .meta({ id: 'VerificationList' })

const page = { ...exampleRows, limit: 50 } as const
const digest = 'c0ffee00'.repeat(8)

const sealExample = {
  eventId: '0199f3b2-c1d0-7a3e-9b1f-2c4d5e6f7a8b',
  throughOrdinal: 1284,
  throughEventId: '0199f3b2-c1d0-7a3e-9b1f-2c4d5e6f7a8a',
  digest,
  sealedAt: '2026-11-21T02:30:00.000Z',
  publicKey: digest,
  signature: digest + digest,
} as const

const verificationExample = {
  runId: 'ver_0199f3b2c1d07a3e9b1f2c4d5e6f7a8b',
  logId: '0199f3b2-c1d0-7a3e-9b1f-2c4d5e6f7a8c',
  actor: 'operator:alice',
  startedAt: '2026-11-21T02:30:00.000Z',
  finishedAt: '2026-11-21T02:30:05.000Z',
  outcome: 'clean',
  result: {
    position: positionToken(1284),
    events: 1284,
    seals: 1,
    sealedThrough: 1280,
    unsealed: 4,
    digest,
    groups: [{ group: 'hot', position: positionToken(1284), tables: 14, rows: 3120 }],
    findingCount: 0,
    findings: [],
  },
} as const

const toVerificationJson = ({
  result,
  ...run
}: Verification): z.input<typeof Verifications>['verifications'][number] => ({
  ...run,
  result: result && {
    position: positionToken(result.position),
    events: result.events,
    seals: result.seals.seals,
    sealedThrough: result.seals.sealedThrough,
    unsealed: result.seals.unsealed,
    digest: result.seals.digest,
    groups: result.groups.map((group) => ({ ...group, position: positionToken(group.position) })),
    findingCount: result.findingCount,
    findings: result.findings.map(findingText),
  },
})

const common = { tag: 'Finance', access: 'finance', writes: false, errors: [] } as const

/** The routes of seals and verifications. No request starts a verification. The routes need no read model. */
export const auditRoutes = ({
  pool,
  log,
}: {
  readonly pool: pg.Pool
  readonly log: EventLog
}): readonly Route[] => [
  route({
    ...common,
    method: 'GET',
    path: '/finance/v1/seals',
    operationId: 'listSeals',
    summary: 'List the seals of the log',
    description:
      'Seals, newest first, as they stand in the log; `total` counts changes of the signing key too, which are left out of the page. Keep some elsewhere: a log that was cut or rewritten is found against them.',
    query: z.object(pagingQuery),
    codes: { query: pagingCodes },
    responses: {
      200: { description: 'A page of seals.', body: Seals, example: { seals: [sealExample], ...page } },
    },
    handler: async ({ query }) => {
      const { seals, total } = await listSeals(log, query)
      return { status: 200, body: { seals, ...rowFields(total, query) } }
    },
  }),
  route({
    ...common,
    method: 'GET',
    path: '/finance/v1/verifications',
    operationId: 'listVerifications',
    summary: 'List the verifications of the log',
    description:
      'Runs of `farebox ledger verify` with what they found, newest first. Each is chained to the one before it; `chain` says whether all of them still fit.',
    query: z.object(pagingQuery),
    codes: { query: pagingCodes },
    responses: {
      200: {
        description: 'A page of verifications.',
        body: Verifications,
        example: {
          verifications: [verificationExample],
          chain: { links: 1, digest, findings: [] },
          ...page,
        },
      },
    },
    handler: async ({ query }) => {
      const [{ verifications, total }, chain] = await Promise.all([
        listVerifications(pool, query),
        checkRuns(pool),
      ])
      return {
        status: 200,
        body: { verifications: verifications.map(toVerificationJson), chain, ...rowFields(total, query) },
      }
    },
  }),
]

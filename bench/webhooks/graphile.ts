import { createRequire } from 'node:module'
import { newSecret, signedRequest } from '../../src/features/webhooks/deliver.ts'
import { createSender } from '../../src/features/webhooks/webhook-sender.ts'
import { peerDirectory } from '../append/peers.ts'
import { payloadOf, type SendJob, serveContender, urlOf } from './contender.ts'

type Payload = { readonly id: string; readonly url: string; readonly secret: string; readonly data: string }
type Utils = {
  addJobs(jobs: readonly { readonly identifier: string; readonly payload: Payload }[]): Promise<unknown>
  migrate(): Promise<void>
  release(): Promise<void>
}
type Graphile = {
  readonly Logger: new (logs: () => () => void) => object
  makeWorkerUtils(options: object): Promise<Utils>
  run(options: object): Promise<unknown>
}

const { Logger, makeWorkerUtils, run } = createRequire(`${peerDirectory}package.json`)(
  'graphile-worker',
) as Graphile

/** It logs each failed attempt, and hanging endpoints fail on purpose; only arrived deliveries count. */
const silent = new Logger(() => () => undefined)

/** The same signed request as a job of graphile-worker: a job is durable when added, and gone once it is done. */
const open = async (job: SendJob) => {
  const utils = await makeWorkerUtils({ connectionString: job.databaseUrl, logger: silent })
  await utils.migrate()
  const secrets = Array.from({ length: job.endpoints }, newSecret)
  for (let from = 0; from < job.deliveries; from += 1_000)
    await utils.addJobs(
      Array.from({ length: Math.min(1_000, job.deliveries - from) }, (_, at) => {
        const endpoint = (from + at) % job.endpoints
        const payload: Payload = {
          id: `dlv_${from + at}`,
          url: urlOf(job, endpoint),
          secret: secrets[endpoint]!,
          data: JSON.stringify(payloadOf(from + at)),
        }
        return { identifier: 'deliver', payload }
      }),
    )
  await utils.release()
  const sender = createSender({ resolve: async () => [], rules: { allowLoopback: true }, ca: job.ca })
  const deliver = async ({ id, url, secret, data }: Payload): Promise<void> => {
    const message = { deliveryId: id, event: 'order.fulfilled', resource: id, data }
    const { status } = await sender.send(
      url,
      signedRequest(message, { current: secret, previous: null }, Date.now()),
    )
    if (status !== 200) throw new Error(`answered ${status}`)
  }
  return {
    start: async () => {
      await run({
        preset: {
          worker: {
            connectionString: job.databaseUrl,
            concurrentJobs: job.concurrency,
            maxPoolSize: job.concurrency,
            pollInterval: 100,
            localQueue: { size: job.concurrency * 4 },
            completeJobBatchDelay: 0,
            failJobBatchDelay: 0,
            logger: silent,
          },
        },
        noHandleSignals: true,
        taskList: { deliver },
      })
    },
  }
}

serveContender(open)

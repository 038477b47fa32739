import { newSecret } from '../../../src/features/webhooks/deliver.ts'
import type { WebhookValues } from '../../../src/features/webhooks/webhook-vault.ts'
import type { DomainEvent } from '../../../src/kernel/event.ts'
import { type AccountId, newEventId, newId } from '../../../src/kernel/ids.ts'
import { accountStream, webhooksStream } from '../../../src/kernel/streams.ts'
import { encode } from '../../../src/platform/eventstore/codec.ts'
import type { AppendItem, EventLog } from '../../../src/platform/eventstore/port.ts'

export const metadataNow = () => ({
  correlationId: 'bulk',
  causationId: null,
  actor: { kind: 'system' as const, name: 'test' },
  recordedAt: new Date().toISOString(),
})

const perAccount = 10

/** Keeps one URL and one secret for each endpoint. */
export const sameValues =
  (store: WebhookValues['store'], url: string, secret = newSecret()) =>
  async (endpointId: string) => {
    const [storedUrl, storedSecret] = await store(endpointId, [url, secret])
    return { urlId: storedUrl!.valueId, secretId: storedSecret!.valueId }
  }

/** Accounts with a key and ten endpoints each, as facts of the log alone: nothing can be sent to them without values of the vault. */
export const bulkEndpoints = async (
  log: EventLog,
  count: number,
  {
    reseller = false,
    events = null as readonly string[] | null,
    keys = 1,
    values = async (_endpointId: string) => ({ urlId: 'none', secretId: 'none' }),
  } = {},
): Promise<readonly string[]> => {
  const metadata = metadataNow()
  const made = (type: string, data: unknown) => encode({ type, data } as DomainEvent, metadata, newEventId())
  const endpointIds: string[] = []
  let items: AppendItem[] = []
  const flush = async (): Promise<void> => {
    const outcomes = await log.appendAll(items)
    if (!outcomes.every(({ status }) => status === 'landed')) throw new Error('bulk endpoints did not land')
    items = []
  }
  while (endpointIds.length < count) {
    const accountId = newId<AccountId>('acc')
    const ids = Array.from({ length: Math.min(perAccount, count - endpointIds.length) }, () =>
      newId<string>('whs'),
    )
    endpointIds.push(...ids)
    const registered = await Promise.all(
      ids.map(async (endpointId) =>
        made('EndpointRegistered', { endpointId, accountId, events, ...(await values(endpointId)) }),
      ),
    )
    items.push({
      appends: [
        {
          stream: accountStream(accountId),
          expected: 'noStream',
          events: [
            made('AccountCreated', { accountId, reseller }),
            ...Array.from({ length: keys }, () =>
              made('KeyIssued', {
                keyId: newId('key'),
                scopes: ['buy'],
                dailyCapCents: null,
                displayPrefix: 'fbx_bulk',
              }),
            ),
          ],
        },
        {
          stream: webhooksStream(accountId),
          expected: 'noStream',
          events: registered,
        },
      ],
    })
    if (items.length >= 100) await flush()
  }
  if (items.length > 0) await flush()
  return endpointIds
}

import assert from 'node:assert/strict'
import { readFile } from 'node:fs/promises'
import { test } from 'node:test'
import { defaultEvents, webhookEvents } from '../../../src/domain/webhooks/events.ts'
import { eventsField } from '../../../src/features/webhooks/routes.ts'

const namesIn = (text: string): readonly string[] =>
  [...text.matchAll(/`([a-z_]+(?:\.[a-z_]+)+)`/g)].map(([, name = '']) => name)

test('the interface description and the guide list the events that an endpoint must name', async () => {
  const wanted = webhookEvents.filter((name) => !defaultEvents.includes(name))
  assert.deepEqual(namesIn(eventsField.meta()?.description ?? ''), wanted)
  const guide = await readFile(new URL('../../../docs/guides/webhooks.md', import.meta.url), 'utf8')
  const [sentence = ''] = /all events\s+except [^.]*(?:\.[a-z][^.]*)*/.exec(guide) ?? []
  assert.deepEqual(namesIn(sentence), wanted)
})

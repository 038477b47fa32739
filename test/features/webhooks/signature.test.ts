import assert from 'node:assert/strict'
import { createHmac, timingSafeEqual } from 'node:crypto'
import { test } from 'node:test'
import { Webhook, WebhookVerificationError } from 'standardwebhooks'
import { newSecret, signedRequest } from '../../../src/features/webhooks/deliver.ts'
import fc, { runs } from '../../support/fast-check.ts'

/** The spec's own header, verified by hand as a receiver would. */
const verifies = (secret: string, body: Buffer, signature: string): boolean => {
  const expected = createHmac('sha256', secret).update(body).digest()
  const given = Buffer.from(signature, 'hex')
  return given.length === expected.length && timingSafeEqual(given, expected)
}

const message = fc.record({
  deliveryId: fc.stringMatching(/^dlv_[0-9a-f]{32}$/),
  event: fc.constantFrom('ping', 'order.fulfilled'),
  resource: fc.string(),
  data: fc.json(),
})

test('two independent verifiers accept every signature, and refuse every change', () => {
  fc.assert(
    fc.property(message, fc.boolean(), fc.nat(), fc.nat({ max: 7 }), (one, rotating, place, bit) => {
      const current = newSecret()
      const former = newSecret()
      const nowMs = Date.now()
      const { body, headers } = signedRequest(one, { current, previous: rotating ? former : null }, nowMs)
      const parsed = JSON.parse(body.toString())
      assert.deepEqual(Object.keys(parsed), ['event', 'created', 'resource', 'data'])
      assert.deepEqual(parsed.data, JSON.parse(one.data))
      assert.equal(parsed.resource, one.resource.toWellFormed())

      const own = headers['X-Service-Signature']!
      assert.ok(verifies(current, body, own))
      assert.equal(verifies(former, body, own), false)
      new Webhook(current).verify(body, headers as Record<string, string>, { jsonParse: false })
      const byFormer = () =>
        new Webhook(former).verify(body, headers as Record<string, string>, { jsonParse: false })
      if (rotating) {
        byFormer()
        assert.ok(verifies(former, body, headers['X-Service-Signature-Previous']!))
      } else {
        assert.throws(byFormer, WebhookVerificationError)
        assert.equal(headers['X-Service-Signature-Previous'], undefined)
      }

      const mutated = Buffer.from(body)
      mutated[place % body.length]! ^= 1 << bit
      assert.equal(verifies(current, mutated, own), false)
      const standard = (changed: Record<string, string>, bytes = body) =>
        new Webhook(current).verify(bytes, { ...headers, ...changed } as Record<string, string>, {
          jsonParse: false,
        })
      assert.throws(() => standard({}, mutated), WebhookVerificationError)
      assert.throws(() => standard({ 'webhook-id': `${one.deliveryId}0` }), WebhookVerificationError)
      const later = String(Number(headers['webhook-timestamp']) + 1)
      assert.throws(() => standard({ 'webhook-timestamp': later }), WebhookVerificationError)
    }),
    { numRuns: runs(200) },
  )
})

import assert from 'node:assert/strict'
import { test } from 'node:test'
import { atMost } from '../../../src/features/payments/gateways.ts'
import type { Send } from '../../../src/platform/outgoing/send.ts'
import { faultKind } from '../../../src/platform/outgoing/target.ts'

/** Answers on command, first the head and then the body. */
const hanging = () => {
  const heads: PromiseWithResolvers<void>[] = []
  const body = Promise.withResolvers<string>()
  const send: Send = async () => {
    const head = Promise.withResolvers<void>()
    heads.push(head)
    await head.promise
    return { status: 200, headers: new Headers(), text: () => body.promise }
  }
  return { heads, body, send }
}

const isTooMany = (error: unknown): boolean => faultKind(error) === 'too_many_at_once'

test('at most the limit of requests run at once, each until its body is read or it failed', async () => {
  const { heads, body, send } = hanging()
  const bounded = atMost(2, send)
  const [first, second] = [bounded('https://one.example'), bounded('https://two.example')]
  await assert.rejects(bounded('https://three.example'), isTooMany)
  assert.equal(heads.length, 2, 'what is refused is not sent')
  heads[0]!.reject(new Error('broken off'))
  await assert.rejects(first, /broken off/)
  const third = bounded('https://three.example')
  await assert.rejects(bounded('https://four.example'), isTooMany)
  for (const head of heads) head.resolve()
  const texts = [(await second).text(), (await third).text()]
  await assert.rejects(bounded('https://four.example'), isTooMany)
  body.resolve('{}')
  assert.deepEqual(await Promise.all(texts), ['{}', '{}'])
  const fourth = bounded('https://four.example')
  heads[3]!.resolve()
  assert.equal((await fourth).status, 200)
})

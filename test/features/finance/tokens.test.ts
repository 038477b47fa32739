import assert from 'node:assert/strict'
import { test } from 'node:test'
import { maxActiveKeys } from '../../../src/domain/accounts/decide.ts'
import { isKeyActive } from '../../../src/domain/accounts/fold.ts'
import type { FinanceTokenEvent } from '../../../src/domain/finance/tokens.ts'
import {
  decideTokenIssue,
  decideTokenRevocation,
  type FinanceTokens,
  financeTokenFold,
} from '../../../src/domain/finance/tokens.ts'
import {
  createFinanceDirectory,
  createFinanceTokenService,
  financeTokenForm,
} from '../../../src/features/finance/token-service.ts'
import { financeStream } from '../../../src/kernel/streams.ts'
import fc from '../../support/fast-check.ts'
import { operator } from '../../support/operator.ts'
import { testApp } from '../../support/test-app.ts'

type Step =
  | { readonly kind: 'issue'; readonly id: number; readonly livesMs: number | null }
  | { readonly kind: 'revoke'; readonly id: number }
  | { readonly kind: 'wait'; readonly ms: number }

const step: fc.Arbitrary<Step> = fc.oneof(
  fc.record({
    kind: fc.constant('issue' as const),
    id: fc.nat(200),
    livesMs: fc.option(fc.integer({ min: -5, max: 50 })),
  }),
  fc.record({ kind: fc.constant('revoke' as const), id: fc.nat(200) }),
  fc.record({ kind: fc.constant('wait' as const), ms: fc.nat(30) }),
)

test('invariant: a token works from its issue to its revocation or its expiry, and at most a hundred work at once', () => {
  fc.assert(
    fc.property(fc.array(step, { maxLength: 300 }), (steps) => {
      let state: FinanceTokens = financeTokenFold.initial
      let nowMs = 1000
      const ends = new Map<string, number>()
      const apply = (events: readonly FinanceTokenEvent[]): void => {
        for (const event of events)
          state = financeTokenFold.evolve(state, { ...event, revision: 0, recordedAtMs: nowMs })
      }
      for (const one of steps) {
        if (one.kind === 'wait') nowMs += one.ms
        else if (one.kind === 'revoke') {
          const decision = decideTokenRevocation(state, `fin_${one.id}`)
          assert.equal(decision.outcome === 'refused', !ends.has(`fin_${one.id}`))
          if (decision.outcome === 'decided') {
            apply(decision.events)
            ends.set(`fin_${one.id}`, Math.min(nowMs, ends.get(`fin_${one.id}`) ?? nowMs))
          }
        } else if (!ends.has(`fin_${one.id}`)) {
          const expiresAtMs = one.livesMs === null ? null : nowMs + one.livesMs
          const issue = {
            tokenId: `fin_${one.id}`,
            name: 'n',
            displayPrefix: 'fbf_abcd',
            expiresAtMs,
            commitment: 'c',
          }
          const decision = decideTokenIssue(state, issue, nowMs)
          if (decision.outcome === 'decided') {
            apply(decision.events)
            ends.set(`fin_${one.id}`, expiresAtMs ?? Number.POSITIVE_INFINITY)
          } else assert.ok(one.livesMs !== null && one.livesMs <= 0)
        }
        for (const [id, endMs] of ends) assert.equal(isKeyActive(state.get(id)!, nowMs), nowMs < endMs, id)
      }
    }),
  )
  let full: FinanceTokens = financeTokenFold.initial
  const issueOf = (n: number) => ({
    tokenId: `fin_${n}`,
    name: 'n',
    displayPrefix: 'p',
    expiresAtMs: null,
    commitment: 'c',
  })
  for (let n = 0; n < maxActiveKeys; n++) {
    const decision = decideTokenIssue(full, issueOf(n), 0)
    assert.equal(decision.outcome, 'decided')
    if (decision.outcome === 'decided')
      for (const event of decision.events)
        full = financeTokenFold.evolve(full, {
          ...(event as FinanceTokenEvent),
          revision: 0,
          recordedAtMs: 0,
        })
  }
  assert.deepEqual(decideTokenIssue(full, issueOf(100), 0), {
    outcome: 'refused',
    refusal: { code: 'too_many_keys', limit: maxActiveKeys },
  })
})

test('a token has the form of a key with another prefix, and no key has this form', () => {
  const token = financeTokenForm.generate()
  assert.match(token, /^fbf_[0-9A-Za-z]{40}$/)
  assert.equal(financeTokenForm.parse(token), token)
  assert.equal(financeTokenForm.parse(token.replace('fbf_', 'fbx_')), null)
  const typo = `${token.slice(0, 10)}${token[10] === 'a' ? 'b' : 'a'}${token.slice(11)}`
  assert.equal(financeTokenForm.parse(typo), null)
})

test('a token opens only the books, ends at once when revoked or expired, and is stored as a hash', async (t) => {
  const { client, core, baseUrl, cli, run, demo } = await testApp(t)
  const books = '/finance/v1/trial-balance'
  const create = ['finance', 'token', 'create', '--name', 'close', '--expires-in-days', '1']
  const { token, tokenId } = await run(...create)
  const bearer = { headers: { authorization: `Bearer ${token}` } }
  assert.equal((await client.get(books, bearer)).status, 200)
  assert.equal((await client.get(books, { key: token })).status, 200)
  assert.equal((await client.get('/api/v1/wallet', { key: token })).status, 401)
  assert.equal((await client.get(books, { key: demo.buyer.key })).status, 401)
  const bare = await client.get(books)
  assert.equal(bare.status, 401)
  assert.match(bare.body.error, /^no finance token: send it as Authorization: Bearer/)
  for (const method of ['POST', 'PUT', 'PATCH', 'DELETE'])
    assert.equal((await fetch(`${baseUrl}${books}`, { method, ...bearer })).status, 405, method)

  const listed = await cli.text('finance', 'token', 'list')
  assert.match(listed.out, new RegExp(`${tokenId} +close +${token.slice(0, 8)}.*works`))
  assert.ok(!listed.out.includes(token))
  const events = (await core.log.readAll(0, 100_000)).filter(({ stream }) => stream === 'finance')
  assert.ok(events.length > 0)
  for (const { data, metadata } of events) assert.ok(!`${data}${metadata}`.includes(token))
  const issued = events.find(({ data }) => data.includes(tokenId))
  assert.equal(JSON.parse(issued?.metadata ?? '{}').actor.kind, 'operator')
  const { rows } = await core.pool.query('select hash from vault.finance_tokens where token_id = $1', [
    tokenId,
  ])
  assert.deepEqual(rows[0].hash, financeTokenForm.hash(token))

  await run('finance', 'token', 'revoke', tokenId)
  assert.equal((await client.get(books, bearer)).status, 401)

  const issuedMs = core.clock()
  const short = await createFinanceTokenService(core).issue(
    { name: 'short', expiresAtMs: issuedMs + 60_000 },
    operator,
  )
  assert.ok(short.outcome === 'done')
  assert.equal((await client.get(books, { key: short.key })).status, 200)
  const at = (aheadMs: number) =>
    createFinanceDirectory({ ...core, clock: () => issuedMs + aheadMs, clockProblem: () => null })
  assert.deepEqual(await at(59_999).byToken(short.key), { tokenId: short.keyId })
  assert.equal(await at(60_000).byToken(short.key), null)
})

test('a token without expiry must be requested explicitly, and the response says so', async (t) => {
  const { cli } = await testApp(t)
  const { code, out } = await cli.text('finance', 'token', 'create', '--name', 'audit', '--never-expires')
  assert.equal(code, 0)
  assert.match(out, /^expires at +never$/m)
  assert.match((await cli.text('finance', 'token', 'list')).out, / never +works$/m)
})

test('wrong use of a finance token exits with 2 and issues nothing', async (t) => {
  const { cli, core } = await testApp(t)
  const before = await core.log.lastOf(financeStream)
  for (const [args, message] of [
    [['revoke', 'fin_nothing'], /no finance token has the id fin_nothing/],
    [['create', '--name', 'a', '--expires-at', '2020-01-01T00:00:00Z'], /in the past/],
    [['create', '--name', 'a', '--expires-at', 'later'], /an instant such as/],
    [['create', '--name', 'a', '--expires-at', '9999-12-31T23:59:59-05:00'], /an instant such as/],
    [['create', '--name', 'a', '--expires-at', '2120-01-01T00:00:00Z', '--expires-in-days', '5'], /not both/],
    [['create', '--name', 'a', '--never-expires', '--expires-in-days', '5'], /cannot be used with/],
    [['create', '--name', 'a'], /give an expiry: --expires-in-days/],
    [['create'], /--name/],
  ] as const) {
    const { code, err } = await cli.text('finance', 'token', ...args)
    assert.equal(code, 2, err)
    assert.match(err, message)
  }
  assert.deepEqual(await core.log.lastOf(financeStream), before)
})

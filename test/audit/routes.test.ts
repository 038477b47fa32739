import assert from 'node:assert/strict'
import { test } from 'node:test'
import { testApp } from '../support/test-app.ts'

test('seals and verifications are listed over HTTP, newest first', async (t) => {
  const {
    client,
    cli,
    run: command,
    financeToken: key,
    core,
  } = await testApp(t, { own: true, with: ['financeToken'] })
  await command('ledger', 'seal')
  await command('ledger', 'verify')
  const { body } = await client.get('/finance/v1/seals?limit=1', { key })
  const [seal] = body.seals
  const covered = (await core.log.readAll(0, seal.throughOrdinal)).at(-1)
  assert.equal(seal.throughEventId, covered?.id)
  const runs = await client.get('/finance/v1/verifications', { key })
  assert.equal(runs.body.total, 1)
  const [run] = runs.body.verifications
  assert.equal(run.outcome, 'clean')
  assert.match(run.actor, /^operator:/)
  assert.deepEqual(run.result.findings, [])
  assert.ok(run.result.sealedThrough >= seal.throughOrdinal)
  await core.pool.query(`update read.journal_postings set amount_micros = amount_micros + 1
    where position = (select min(position) from read.journal_postings)`)
  const again = await cli('ledger', 'verify')
  assert.equal(again.code, 1)
  const { verifications } = (await client.get('/finance/v1/verifications?limit=1', { key })).body
  assert.equal(verifications[0].outcome, 'differs')
  assert.match(verifications[0].result.findings.join('\n'), /read\.journal_postings .*amount_micros/)
  const { chain } = (await client.get('/finance/v1/verifications?limit=1', { key })).body
  assert.equal(chain.links, 2)
  assert.match(chain.digest, /^[0-9a-f]{64}$/)
  assert.deepEqual(chain.findings, [])
  await core.pool.query(`update work.verifications set outcome = 'clean' where link = 2`)
  const broken = (await client.get('/finance/v1/verifications?limit=1&offset=1', { key })).body.chain
  assert.deepEqual([broken.links, broken.findings.length], [2, 1])
  assert.match(broken.findings[0], new RegExp(`^run ${verifications[0].runId} \\(link 2\\) does not fit`))
})

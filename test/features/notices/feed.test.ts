import assert from 'node:assert/strict'
import { type TestContext, test } from 'node:test'
import { markNoticeRead } from '../../../src/features/notices/notice-service.ts'
import type { AccountId, NoticeId } from '../../../src/kernel/ids.ts'
import { operator } from '../../support/operator.ts'
import { type TestApp, testApp } from '../../support/test-app.ts'

const path = '/api/v1/announcements'

/** The service without current notices, and an operator who publishes some. */
const withPublisher = async (t: TestContext) => {
  const app = await testApp(t, { own: 'file' })
  for (const { noticeId } of (await app.run('notices', 'list')).notices)
    assert.equal((await app.cli.text('notices', 'expire', noticeId)).code, 0)
  assert.ok(await app.caughtUp())
  const publish = async (...args: readonly string[]): Promise<string> => {
    const { noticeId } = await app.run('notices', 'publish', ...args)
    assert.ok(await app.caughtUp())
    return noticeId
  }
  return { ...app, publish }
}

const titlesOf = async ({ client }: Pick<TestApp, 'client'>, key: string, query = '') => {
  const { status, body, text } = await client.get(`${path}${query}`, { key })
  assert.equal(status, 200, text)
  return body.announcements.map(({ title }: { title: string }) => title)
}

const notice = (title: string, audience = 'ALL', kind = 'INFO') =>
  ['--title', title, '--body', 'From 2026-12-01 on.', '--audience', audience, '--kind', kind] as const

test("the feed has the current notices of one's own audiences, newest first, with filters", async (t) => {
  const app = await withPublisher(t)
  const { buyer, reseller, scraper } = app.demo
  await app.publish(...notice('for all'))
  await app.publish(...notice('for customers', 'CUSTOMERS', 'PRICING'))
  await app.publish(...notice('for partners', 'PARTNERS'))
  await app.publish(...notice('for developers', 'DEVELOPERS', 'ACTION_REQUIRED'))
  assert.deepEqual(await titlesOf(app, buyer.key), ['for developers', 'for customers', 'for all'])
  assert.deepEqual(await titlesOf(app, reseller.key), ['for developers', 'for partners', 'for all'])
  assert.deepEqual(await titlesOf(app, scraper.key), ['for developers', 'for customers', 'for all'])
  assert.deepEqual(await titlesOf(app, buyer.key, '?kind=PRICING'), ['for customers'])
  assert.deepEqual(await titlesOf(app, buyer.key, '?audience=ALL'), ['for all'])
  assert.deepEqual(await titlesOf(app, buyer.key, '?audience=PARTNERS'), [], 'another audience')
  assert.deepEqual(await titlesOf(app, buyer.key, '?kind=PRICING&audience=ALL'), [])
  for (const query of ['?kind=pricing', '?audience=ADMINS', '?kind=']) {
    const { status, body } = await app.client.get(`${path}${query}`, { key: buyer.key })
    assert.equal(status, 400)
    assert.equal(body.code, 'invalid_parameter')
    assert.match(body.error, query.startsWith('?kind') ? /ACTION_REQUIRED/ : /DEVELOPERS/)
  }
  const blocked = await app.customer({ cents: 0 })
  await app.accounts.block(blocked.accountId, 'chargebacks', operator)
  assert.equal((await titlesOf(app, blocked.key)).length, 3, 'a blocked account reads the feed')
})

test('a notice leaves the feed when it expires, manually or automatically', async (t) => {
  const app = await withPublisher(t)
  const { key } = app.demo.buyer
  const earlier = (await app.run('notices', 'list', '--all')).notices.length
  const id = await app.publish(...notice('by hand'))
  const soon = new Date(app.core.clock() + 3_600_000).toISOString()
  await app.publish(...notice('at its time'), '--expires-at', soon)
  const { body } = await app.client.get(path, { key })
  assert.deepEqual(
    body.announcements.map(({ expiresAt }: { expiresAt: string | null }) => expiresAt),
    [null, null],
    'both stand, also the one whose end is planned',
  )
  const planned = (await app.run('notices', 'list')).notices
  assert.deepEqual(
    planned.map(({ expiresAt }: { expiresAt: string | null }) => expiresAt),
    [soon, null],
    'an operator sees the plan',
  )
  assert.equal((await app.cli.text('notices', 'expire', id)).code, 0)
  assert.match((await app.cli.text('notices', 'expire', id)).out, /^had expired before: ntc_/)
  await app.caughtUp()
  assert.deepEqual(await titlesOf(app, key), ['at its time'])
  app.wait(3_600_001)
  assert.deepEqual(await titlesOf(app, key), [])
  assert.equal((await app.run('notices', 'list')).notices.length, 0)
  assert.equal((await app.run('notices', 'list', '--all')).notices.length, earlier + 2)
})

test('unread belongs to the account, is true until it is set, and survives a rebuild', async (t) => {
  const app = await withPublisher(t)
  const { buyer } = app.demo
  const second = await app.issueKey(buyer.accountId)
  const other = await app.customer({ cents: 0 })
  const opened = (await app.publish(...notice('opened'))) as NoticeId
  await app.publish(...notice('left'))
  const unread = async (key: string) =>
    Object.fromEntries(
      (await app.client.get(path, { key })).body.announcements.map(
        (one: { title: string; unread: boolean }) => [one.title, one.unread],
      ),
    )
  assert.deepEqual(await unread(buyer.key), { left: true, opened: true })
  assert.deepEqual(await unread(buyer.key), { left: true, opened: true }, 'asking opens nothing')
  const { pool } = app.core
  const account = buyer.accountId as AccountId
  await markNoticeRead(pool, account, opened, new Date().toISOString())
  await markNoticeRead(pool, account, opened, new Date().toISOString())
  for (const key of [buyer.key, second]) assert.deepEqual(await unread(key), { left: true, opened: false })
  assert.deepEqual(await unread(other.key), { left: true, opened: true }, 'another account')
})

test('a wrong notice exits with 2 and nothing is written; a reference publishes once', async (t) => {
  const app = await withPublisher(t)
  const { log } = app.core
  const before = await log.head()
  for (const [args, expected] of [
    [['--kind', 'ACTION_REQUIRED', '--title', 't', '--body', 'soon'], /must name the date/],
    [['--kind', 'PARTY', '--title', 't', '--body', 'b'], /Allowed choices are INFO, MAINTENANCE/],
    [['--kind', 'INFO', '--audience', 'US', '--title', 't', '--body', 'b'], /Allowed choices are ALL/],
    [['--kind', 'INFO', '--title', 't'], /either --body or --body-file/],
    [['--kind', 'INFO', '--title', 't', '--body-file', '/nowhere'], /cannot be read/],
    [['--kind', 'INFO', '--title', 't', '--body', 'b', '--expires-at', 'soon'], /2026-12-01T18:00:00Z/],
    [['--kind', 'INFO', '--title', 't', '--body', 'b', '--expires-at', '0000-12-31'], /2026-12-01T18:00:00Z/],
    [['--kind', 'INFO', '--title', 't', '--body', 'b', '--link-label', 'x'], /linkLabel needs a linkHref/],
  ] as const) {
    const { code, err } = await app.cli.text('notices', 'publish', ...args)
    assert.equal(code, 2, args.join(' '))
    assert.match(err, expected)
  }
  assert.equal((await app.cli.text('notices', 'expire', 'ntc_none')).code, 2)
  assert.equal(await log.head(), before)

  const first = await app.publish(...notice('once'), '--reference', 'strict-bodies')
  const again = await app.cli('notices', 'publish', ...notice('once'), '--reference', 'strict-bodies')
  assert.deepEqual([again.code, again.json.noticeId, again.json.changed], [0, first, false])
  const other = await app.cli.text('notices', 'publish', ...notice('other'), '--reference', 'strict-bodies')
  assert.equal(other.code, 1)
  assert.match(other.err, /published another notice before/)
  for (const command of ['publish', 'expire', 'list'])
    assert.match((await app.cli.text('notices', command, '--help')).out, /Examples:[\s\S]*--json/)
})

test('the feed shows the fifty newest notices', async (t) => {
  const app = await withPublisher(t)
  for (let n = 0; n < 52; n += 1) {
    await app.cli.text('notices', 'publish', ...notice(`n ${n}`))
    // Of two that were published in one millisecond none is the newer one.
    app.wait(1)
  }
  await app.caughtUp()
  const titles = await titlesOf(app, app.demo.buyer.key)
  assert.deepEqual(
    titles,
    Array.from({ length: 50 }, (_, n) => `n ${51 - n}`),
  )
})

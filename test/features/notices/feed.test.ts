import assert from 'node:assert/strict'
import { type TestContext, test } from 'node:test'
import { runCli } from '../../../src/app/cli-program.ts'
import { commands as noticeCommands } from '../../../src/features/notices/commands.ts'
import { markNoticeRead } from '../../../src/features/notices/notice-service.ts'
import type { AccountId, NoticeId } from '../../../src/kernel/ids.ts'
import type { CliContext } from '../../../src/platform/cli/cli-context.ts'
import { openStage, operator, type Stage } from '../../contract/stage.ts'

const path = '/api/v1/announcements'

/** The service, an operator at its command line, and a clock that can be moved. */
const newsroom = async (t: TestContext) => {
  let offsetMs = 0
  const stage = await openStage(t)
  // The service's own clock moves, the system's does not.
  Object.defineProperty(stage.farebox.config, 'clockOffsetMs', { get: () => offsetMs })
  const run = async (...args: readonly string[]) => {
    const out: string[] = []
    const err: string[] = []
    const code = await runCli(['notices', ...args], noticeCommands, {
      out: (text) => out.push(text),
      err: (text) => err.push(text),
      open: async () => ({
        context: { ...stage.farebox.core, ...operator } as unknown as CliContext,
        close: async () => undefined,
      }),
    })
    return { code, out: out.join('\n'), err: err.join('\n') }
  }
  const publish = async (...args: readonly string[]): Promise<string> => {
    const { code, out, err } = await run('publish', ...args, '--json')
    assert.equal(code, 0, err)
    assert.ok(await stage.farebox.projecting.caughtUp(10_000))
    return JSON.parse(out).noticeId
  }
  return {
    ...stage,
    run,
    publish,
    wait: (ms: number) => {
      offsetMs += ms
    },
    caughtUp: () => stage.farebox.projecting.caughtUp(10_000),
  }
}

const titlesOf = async ({ client }: Pick<Stage, 'client'>, key: string, query = '') => {
  const { status, body, text } = await client.get(`${path}${query}`, { key })
  assert.equal(status, 200, text)
  return body.announcements.map(({ title }: { title: string }) => title)
}

const notice = (title: string, audience = 'ALL', kind = 'INFO') =>
  ['--title', title, '--body', 'From 2026-12-01 on.', '--audience', audience, '--kind', kind] as const

test("the feed has the current notices of one's own audiences, newest first, with filters", async (t) => {
  const room = await newsroom(t)
  const { buyer, reseller, scraper } = room.demo
  await room.publish(...notice('for all'))
  await room.publish(...notice('for customers', 'CUSTOMERS', 'PRICING'))
  await room.publish(...notice('for partners', 'PARTNERS'))
  await room.publish(...notice('for developers', 'DEVELOPERS', 'ACTION_REQUIRED'))
  assert.deepEqual(await titlesOf(room, buyer.key), ['for developers', 'for customers', 'for all'])
  assert.deepEqual(await titlesOf(room, reseller.key), ['for developers', 'for partners', 'for all'])
  assert.deepEqual(await titlesOf(room, scraper.key), ['for developers', 'for customers', 'for all'])
  assert.deepEqual(await titlesOf(room, buyer.key, '?kind=PRICING'), ['for customers'])
  assert.deepEqual(await titlesOf(room, buyer.key, '?audience=ALL'), ['for all'])
  assert.deepEqual(await titlesOf(room, buyer.key, '?audience=PARTNERS'), [], 'another audience')
  assert.deepEqual(await titlesOf(room, buyer.key, '?kind=PRICING&audience=ALL'), [])
  for (const query of ['?kind=pricing', '?audience=ADMINS', '?kind=']) {
    const { status, body } = await room.client.get(`${path}${query}`, { key: buyer.key })
    assert.equal(status, 400)
    assert.equal(body.code, 'invalid_parameter')
    assert.match(body.error, query.startsWith('?kind') ? /ACTION_REQUIRED/ : /DEVELOPERS/)
  }
  const blocked = await room.customer({ cents: 0 })
  await room.accounts.block(blocked.accountId, 'chargebacks', operator)
  assert.equal((await titlesOf(room, blocked.key)).length, 3, 'a blocked account reads the feed')
})

test('a notice leaves the feed when it expires, manually or automatically', async (t) => {
  const room = await newsroom(t)
  const { key } = room.demo.buyer
  const id = await room.publish(...notice('by hand'))
  const soon = new Date(Date.now() + 3_600_000).toISOString()
  await room.publish(...notice('at its time'), '--expires-at', soon)
  const { body } = await room.client.get(path, { key })
  assert.deepEqual(
    body.announcements.map(({ expiresAt }: { expiresAt: string | null }) => expiresAt),
    [null, null],
    'both stand, also the one whose end is planned',
  )
  const planned = JSON.parse((await room.run('list', '--json')).out).notices
  assert.deepEqual(
    planned.map(({ expiresAt }: { expiresAt: string | null }) => expiresAt),
    [soon, null],
    'an operator sees the plan',
  )
  assert.equal((await room.run('expire', id)).code, 0)
  assert.match((await room.run('expire', id)).out, /^had expired before: ntc_/)
  await room.caughtUp()
  assert.deepEqual(await titlesOf(room, key), ['at its time'])
  room.wait(3_600_001)
  assert.deepEqual(await titlesOf(room, key), [])
  assert.equal(JSON.parse((await room.run('list', '--json')).out).notices.length, 0)
  assert.equal(JSON.parse((await room.run('list', '--all', '--json')).out).notices.length, 2)
})

test('unread belongs to the account, is true until it is set, and survives a rebuild', async (t) => {
  const room = await newsroom(t)
  const { buyer } = room.demo
  const second = await room.issueKey(buyer.accountId)
  const other = await room.customer({ cents: 0 })
  const opened = (await room.publish(...notice('opened'))) as NoticeId
  await room.publish(...notice('left'))
  const unread = async (key: string) =>
    Object.fromEntries(
      (await room.client.get(path, { key })).body.announcements.map(
        (one: { title: string; unread: boolean }) => [one.title, one.unread],
      ),
    )
  assert.deepEqual(await unread(buyer.key), { left: true, opened: true })
  assert.deepEqual(await unread(buyer.key), { left: true, opened: true }, 'asking opens nothing')
  const { pool } = room.farebox.core
  const account = buyer.accountId as AccountId
  await markNoticeRead(pool, account, opened, new Date().toISOString())
  await markNoticeRead(pool, account, opened, new Date().toISOString())
  for (const key of [buyer.key, second]) assert.deepEqual(await unread(key), { left: true, opened: false })
  assert.deepEqual(await unread(other.key), { left: true, opened: true }, 'another account')
})

test('the feed shows the fifty newest notices', async (t) => {
  const room = await newsroom(t)
  for (let n = 0; n < 52; n += 1) {
    await room.run('publish', ...notice(`n ${n}`))
    // Of two that were published in one millisecond none is the newer one.
    room.wait(1)
  }
  await room.caughtUp()
  const titles = await titlesOf(room, room.demo.buyer.key)
  assert.deepEqual(
    titles,
    Array.from({ length: 50 }, (_, n) => `n ${51 - n}`),
  )
})

test('a wrong notice exits with 2 and nothing is written; a reference publishes once', async (t) => {
  const room = await newsroom(t)
  const { log } = room.farebox.core
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
    const { code, err } = await room.run('publish', ...args)
    assert.equal(code, 2, args.join(' '))
    assert.match(err, expected)
  }
  assert.equal((await room.run('expire', 'ntc_none')).code, 2)
  assert.equal(await log.head(), before)

  const first = await room.publish(...notice('once'), '--reference', 'strict-bodies')
  const again = await room.run('publish', ...notice('once'), '--reference', 'strict-bodies', '--json')
  assert.deepEqual(
    [again.code, JSON.parse(again.out).noticeId, JSON.parse(again.out).changed],
    [0, first, false],
  )
  const other = await room.run('publish', ...notice('other'), '--reference', 'strict-bodies')
  assert.equal(other.code, 1)
  assert.match(other.err, /published another notice before/)
  for (const command of ['publish', 'expire', 'list'])
    assert.match((await room.run(command, '--help')).out, /Examples:[\s\S]*--json/)
})

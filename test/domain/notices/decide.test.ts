import assert from 'node:assert/strict'
import { describe, test } from 'node:test'
import { audiences } from '../../../src/domain/notices/audiences.ts'
import {
  decideExpiration,
  decidePublication,
  type NoticeDraft,
  type NoticeState,
  noticeFold,
} from '../../../src/domain/notices/decide.ts'
import { audiencesOf, belongsTo } from '../../../src/domain/notices/events.ts'
import { namesDate } from '../../../src/domain/notices/notice-dates.ts'
import fc from '../../support/fast-check.ts'

const now = Date.parse('2026-11-21T10:00:00.000Z')
const draft: NoticeDraft = {
  noticeId: 'ntc_1',
  title: 'Gateway restart',
  body: 'Ten minutes at most.',
  kind: 'INFO',
  audience: 'ALL',
  expiresAt: null,
  linkHref: null,
  linkLabel: null,
}

const publish = (over: Partial<NoticeDraft> = {}, state: NoticeState = null) =>
  decidePublication(state, { ...draft, ...over }, now)
const problemsOf = (over: Partial<NoticeDraft>): string => {
  const decision = publish(over)
  if (decision.outcome === 'decided' || decision.refusal.code !== 'invalid_notice')
    return assert.fail('it was not refused as invalid')
  return decision.refusal.problems.join('; ')
}
const after = (state: NoticeState, decision: ReturnType<typeof publish>): NoticeState =>
  decision.outcome === 'decided'
    ? decision.events.reduce<NoticeState>(
        (known, event) => noticeFold.evolve(known, { ...event, revision: 0, recordedAtMs: now }),
        state,
      )
    : state

describe('a notice', () => {
  test('is published once, and the same notice again adds no event', () => {
    const first = publish()
    assert.equal(first.outcome === 'decided' && first.events.length, 1)
    const state = after(null, first)
    const again = decidePublication(state, draft, now + 1)
    assert.equal(again.outcome === 'decided' && again.events.length, 0)
    const other = decidePublication(state, { ...draft, title: 'Other' }, now + 1)
    assert.deepEqual(other, { outcome: 'refused', refusal: { code: 'already_published' } })
  })

  test('that requires action is refused without a date in its body', () => {
    const action = { kind: 'ACTION_REQUIRED' } as const
    assert.match(problemsOf(action), /must name the date .* such as 2026-12-01/)
    assert.match(problemsOf({ ...action, body: 'By 2026-02-30 at the latest.' }), /must name the date/)
    assert.match(problemsOf({ ...action, title: 'Until 2026-12-01' }), /must name the date/)
    for (const body of [
      'From 2026-12-01 on.',
      'on 1 December 2026',
      'by the 1st of Dec 2026',
      'Dec. 1, 2026',
      'December 1st, 2026!',
    ])
      assert.equal(publish({ ...action, body }).outcome, 'decided', body)
    assert.equal(publish({ body: 'no date' }).outcome, 'decided', 'other kinds need none')
  })

  test('with wrong fields is refused with each field and its accepted values', () => {
    for (const [over, expected] of [
      [{ title: ' ' }, /title must be one line of 1 to 200/],
      [{ title: 'a\nb' }, /title/],
      [{ title: 'x'.repeat(201) }, /title/],
      [{ body: '' }, /body must be 1 to 20000/],
      [{ body: 'a\u0000b' }, /body/],
      [{ body: 'a\ud800' }, /body/],
      [{ kind: 'PARTY' as never }, /kind must be one of INFO, MAINTENANCE/],
      [{ audience: 'US' as never }, /audience must be one of ALL, CUSTOMERS, PARTNERS, DEVELOPERS/],
      [{ expiresAt: '2026-11-21T10:00:00.000Z' }, /expiresAt must be an instant in the future/],
      [{ expiresAt: 'soon' }, /expiresAt/],
      [{ linkHref: 'javascript:alert(1)' }, /linkHref/],
      [{ linkHref: '//elsewhere.example' }, /linkHref/],
      [{ linkHref: 'docs' }, /linkHref/],
      [{ linkLabel: 'Read' }, /linkLabel needs a linkHref/],
    ] as const)
      assert.match(problemsOf(over), expected, JSON.stringify(over))
    for (const linkHref of ['/docs', 'https://example.com/x'])
      assert.equal(publish({ linkHref, linkLabel: 'Read' }).outcome, 'decided')
  })

  test('expires once, manually or automatically, and an unknown one is not found', () => {
    const state = after(null, publish())
    const expired = decideExpiration(state, now + 5)
    assert.equal(expired.outcome === 'decided' && expired.events.length, 1)
    const again = decideExpiration(after(state, expired), now + 9)
    assert.equal(again.outcome === 'decided' && again.events.length, 0)
    const timed = after(null, publish({ expiresAt: '2026-11-21T11:00:00.000Z' }))
    const late = decideExpiration(timed, now + 3_600_000)
    assert.equal(late.outcome === 'decided' && late.events.length, 0)
    assert.deepEqual(decideExpiration(null, now), { outcome: 'refused', refusal: { code: 'not_found' } })
  })
})

test('accepts every calendar day in every form, and no other text', () => {
  const long = new Intl.DateTimeFormat('en-GB', { dateStyle: 'long', timeZone: 'UTC' })
  const american = new Intl.DateTimeFormat('en-US', { dateStyle: 'long', timeZone: 'UTC' })
  const short = new Intl.DateTimeFormat('en-US', { dateStyle: 'medium', timeZone: 'UTC' })
  fc.assert(
    fc.property(
      fc.date({ min: new Date('1990-01-01'), max: new Date('2200-01-01'), noInvalidDate: true }),
      (date) => {
        const iso = date.toISOString()
        for (const text of [iso.slice(0, 10), long.format(date), american.format(date), short.format(date)])
          assert.ok(namesDate(`a ${text}.`), text)
      },
    ),
  )
  for (const text of [
    '2026-13-01',
    '2026-02-29',
    '31 April 2026',
    '12026-12-01',
    '2026-12-012',
    'May 2026',
    '1/2/2026',
  ])
    assert.ok(!namesDate(text), text)
})

test('an account belongs to ALL, to either CUSTOMERS or PARTNERS, and with a key to DEVELOPERS', () => {
  for (const reseller of [true, false])
    for (const hasActiveKey of [true, false]) {
      const own = audiencesOf({ reseller, hasActiveKey })
      assert.ok(own.includes('ALL'))
      assert.equal(own.includes('PARTNERS'), reseller)
      assert.equal(own.includes('CUSTOMERS'), !reseller)
      assert.equal(own.includes('DEVELOPERS'), hasActiveKey)
      for (const audience of audiences)
        assert.equal(own.includes(audience), belongsTo(audience, { reseller, hasActiveKey }))
    }
})

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
import { decider } from '../../support/decider.ts'
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

const notice = decider(noticeFold).at(now)
const publish =
  (over: Partial<NoticeDraft> = {}) =>
  (state: NoticeState, nowMs: number) =>
    decidePublication(state, { ...draft, ...over }, nowMs)
const problemsOf = (over: Partial<NoticeDraft>): string => {
  const { result } = notice.when(publish(over))
  if (result.outcome === 'decided' || result.refusal.code !== 'invalid_notice')
    return assert.fail('it was not refused as invalid')
  return result.refusal.problems.join('; ')
}

describe('a notice', () => {
  test('is published once, and the same notice again adds no event', () => {
    const published = notice
      .when(publish())
      .thenEvents('NoticePublished')
      .at(now + 1)
    published.when(publish()).thenEvents()
    published.when(publish({ title: 'Other' })).thenRefused({ code: 'already_published' })
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
      notice.when(publish({ ...action, body })).thenEvents('NoticePublished')
    // Other kinds need none.
    notice.when(publish({ body: 'no date' })).thenEvents('NoticePublished')
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
      notice.when(publish({ linkHref, linkLabel: 'Read' })).thenEvents('NoticePublished')
  })

  test('expires once, manually or automatically, and an unknown one is not found', () => {
    const published = notice.given(publish()).at(now + 5)
    published.when(decideExpiration).thenEvents('NoticeExpired').when(decideExpiration).thenEvents()
    const timed = notice.given(publish({ expiresAt: '2026-11-21T11:00:00.000Z' }))
    timed
      .at(now + 3_600_000)
      .when(decideExpiration)
      .thenEvents()
    notice.when(decideExpiration).thenRefused({ code: 'not_found' })
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

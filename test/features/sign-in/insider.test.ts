import assert from 'node:assert/strict'
import { test } from 'node:test'
import { findingText } from '../../../src/audit/checks/finding.ts'
import { verifyLog } from '../../../src/audit/verify.ts'
import { createFinanceTokenService, financeTokenForm } from '../../../src/features/finance/token-service.ts'
import { claimStaff, createPeople } from '../../../src/features/sign-in/people.ts'
import { readConsoleAddress } from '../../../src/features/sign-in/printed-link.ts'
import { newId } from '../../../src/kernel/ids.ts'
import { consoleStream } from '../../../src/kernel/streams.ts'
import { hashOfSecret, newSecret } from '../../../src/platform/vault/secrets.ts'
import { testKey } from '../../audit/world.ts'
import { createAuthenticator } from '../../support/authenticator.ts'
import {
  type Browser,
  consoleBrowser,
  letterTo,
  type Page,
  pressLink,
  printedLink,
  signedIn,
  staffBrowser,
} from '../../support/console.ts'
import { operator } from '../../support/operator.ts'
import { type TestApp, testApp } from '../../support/test-app.ts'

const sessionCookie = '__Host-farebox_session'

/** The options of the passkey button of a page. */
const optionsOf = ({ html }: Page): { readonly challenge: string } => {
  const text = /data-options="([^"]*)"/.exec(html)?.[1]
  if (text === undefined) throw new Error(`no passkey is requested in ${html}`)
  return JSON.parse(text.replaceAll('&quot;', '"').replaceAll('&#39;', "'").replaceAll('&amp;', '&'))
}

/** The vault findings of the audit. */
const vaultFindings = async ({ farebox: { core } }: TestApp): Promise<readonly string[]> => {
  const { findings } = await verifyLog(
    { pool: core.pool, log: core.log, groups: [], logInPostgres: true },
    { runId: newId('vrf'), publicKey: testKey().publicKey, exported: null, keys: core.keys },
  )
  return findings.map(findingText).filter((text) => text.startsWith('vault'))
}

/** Changes the database with write access, and undoes the change afterwards. */
const edited = async (
  { farebox: { core } }: TestApp,
  table: string,
  edit: (query: (sql: string, values?: readonly unknown[]) => Promise<unknown>) => Promise<unknown>,
  then: () => Promise<void>,
): Promise<void> => {
  await core.pool.query(`create table public.saved as select * from ${table}`)
  await edit((sql, values = []) => core.pool.query(sql, [...values]))
  await then()
  await core.pool.query(`delete from ${table}`)
  await core.pool.query(`insert into ${table} select * from public.saved`)
  await core.pool.query('drop table public.saved')
}

const isSignedIn = async (browser: Browser): Promise<boolean> =>
  browser.cookies.has(sessionCookie) && (await browser.get('/console')).status === 200

test('write access to the database does not allow to act as another person', async (t) => {
  const app = await testApp(t, { own: true })
  const { core } = app
  const { pool } = core
  const { rows: addresses } = await pool.query<{ origin: string }>('select origin from work.console_address')
  const { origin } = addresses[0]!

  /** An operator with a passkey, and a device that holds it. */
  const operatorWithPasskey = async (email: string) => {
    const member = await claimStaff(pool, email)
    await createPeople(core).grant(member, 'operator', operator)
    const browser = consoleBrowser(app)
    // The page that was wanted before the first passkey is the one that comes after it.
    const wanted = '/console/operator/orders?status=failed'
    await browser.open(wanted)
    assert.equal((await pressLink(browser, await printedLink(app, member.staffId))).to, wanted)
    const device = createAuthenticator(origin)
    const answer = device.create(optionsOf(await browser.open(wanted)))
    assert.equal((await browser.post('/console/passkeys', { name: 'key', answer })).to, wanted)
    assert.equal((await browser.get(wanted)).status, 200)
    const list = await browser.get('/console/passkeys')
    for (const page of [list, await browser.get('/console/operator/catalogue')])
      assert.equal(page.status, 200, 'who added a passkey just now need not show again who they are')
    // Without an account the overview is another page of the navigation.
    assert.doesNotMatch(list.html, /<a href="\/console"[^>]*>Home</)
    return { ...member, email, device }
  }
  const signInWith = async (answerOf: (options: { readonly challenge: string }) => string) => {
    const browser = consoleBrowser(app)
    const answer = answerOf(optionsOf(await browser.open('/console/sign-in')))
    const { status } = await browser.post('/console/sign-in/passkey', { answer })
    return { status, browser }
  }
  const signIns = async (staffId: string): Promise<number> => {
    let count = 0
    for await (const { type } of core.log.readStream(consoleStream(staffId)))
      if (type === 'SignedIn') count += 1
    return count
  }

  const ann = await operatorWithPasskey('ann@staff.example')
  const bob = await operatorWithPasskey('bob@staff.example')

  await t.test(
    'exchanged passkeys of two operators authenticate neither, and the audit finds both',
    async () => {
      for (const { device } of [ann, bob]) assert.equal((await signInWith(device.get)).status, 303)
      const before = [await signIns(ann.staffId), await signIns(bob.staffId)]
      const insiders = createAuthenticator(origin)
      const others = createAuthenticator(origin)
      await edited(
        app,
        'vault.console_passkeys',
        async (query) => {
          // One under the credential of the operator, the other under one of their own.
          await query('update vault.console_passkeys set public_key = $1 where subject_id = $2', [
            insiders.publicKey,
            ann.staffId,
          ])
          await query(
            'update vault.console_passkeys set public_key = $1, credential_id = $3 where subject_id = $2',
            [others.publicKey, bob.staffId, others.credentialId],
          )
        },
        async () => {
          const asAnn = await signInWith((options) => insiders.get(options, ann.device.credentialId))
          const asBob = await signInWith(others.get)
          assert.deepEqual([asAnn.status, asBob.status], [400, 400])
          for (const { browser } of [asAnn, asBob]) assert.equal(await isSignedIn(browser), false)
          const found = await vaultFindings(app)
          assert.equal(found.length, 2, found.join('; '))
          for (const text of found)
            assert.match(text, /PasskeyAdded.*vault.console_passkeys holds another public key/)
        },
      )
      assert.deepEqual([await signIns(ann.staffId), await signIns(bob.staffId)], before)
      assert.deepEqual(await vaultFindings(app), [])
      assert.equal((await signInWith(ann.device.get)).status, 303)
    },
  )

  await t.test(
    'a passkey without its event, one of another person and a removed one are refused',
    async () => {
      const insiders = createAuthenticator(origin)
      const columns = 'sign_count, transports, created_at, salt'
      await edited(
        app,
        'vault.console_passkeys',
        (query) =>
          query(
            `insert into vault.console_passkeys (passkey_id, credential_id, subject_id, name, public_key, ${columns})
           select 'psk_other', $1, subject_id, name, $2, ${columns} from vault.console_passkeys where subject_id = $3`,
            [insiders.credentialId, insiders.publicKey, ann.staffId],
          ),
        async () => assert.equal((await signInWith(insiders.get)).status, 400),
      )
      await edited(
        app,
        'vault.console_passkeys',
        (query) =>
          query('update vault.console_passkeys set subject_id = $1 where subject_id = $2', [
            ann.staffId,
            bob.staffId,
          ]),
        async () => {
          assert.equal((await signInWith(bob.device.get)).status, 400)
          assert.equal((await vaultFindings(app)).length, 1)
        },
      )
    },
  )

  await t.test('an inserted, changed or restored session is refused', async () => {
    const { accountId } = await app.customer({ email: 'mal@example.com', cents: 10_000 })
    const own = await signedIn(app, accountId)
    const staff = await staffBrowser(app, ['operator'])
    const secret = newSecret()
    const forged = consoleBrowser(app)
    forged.cookies.set(sessionCookie, secret)
    const theirs = await pool.query<{ session_id: string }>(
      'select session_id from vault.console_sessions where subject_id = $1',
      [staff.staffId],
    )
    const { session_id: sessionId } = theirs.rows[0]!
    const edits: readonly (readonly [string, readonly unknown[], Browser])[] = [
      [
        'update vault.console_sessions set hash = $1 where session_id = $2',
        [hashOfSecret(secret), sessionId],
        forged,
      ],
      [
        'update vault.console_sessions set subject_id = $1 where subject_id = $2',
        [staff.staffId, accountId],
        own,
      ],
      [
        `update vault.console_sessions set confirmed_until = now() + interval '1 hour', confirmed_act = null where subject_id = $1`,
        [accountId],
        own,
      ],
      [
        'update vault.console_sessions set viewing_account_id = $1 where session_id = $2',
        [accountId, sessionId],
        staff,
      ],
    ]
    for (const [sql, values, browser] of edits)
      await edited(
        app,
        'vault.console_sessions',
        (query) => query(sql, values),
        async () => {
          assert.notEqual((await browser.get('/console')).status, 200, sql)
          const found = await vaultFindings(app)
          assert.equal(found.length, 1, sql)
          assert.match(
            found[0]!,
            /vault.console_sessions holds ses_\w+ .*which the service has not written so/,
          )
        },
      )
    assert.equal(await isSignedIn(own), true)
    await pool.query(
      'create table public.ended as select * from vault.console_sessions where subject_id = $1',
      [accountId],
    )
    const ended = own.cookies.get(sessionCookie)!
    await own.post('/console/sign-out', {})
    await pool.query('insert into vault.console_sessions select * from public.ended')
    own.cookies.set(sessionCookie, ended)
    assert.notEqual((await own.get('/console')).status, 200)
  })

  await t.test('an inserted or changed sign-in link is refused', async () => {
    const secret = newSecret()
    await pool.query(
      `insert into vault.console_links (hash, subject_id, expires_at) values ($1, $2, now() + interval '1 hour')`,
      [hashOfSecret(secret), ann.staffId],
    )
    const path = `/console/sign-in/link?link=${secret}`
    assert.equal((await pressLink(consoleBrowser(app), path)).status, 409)
    const { accountId } = await app.customer({ email: 'moe@example.com', cents: 10_000 })
    const link = await printedLink(app, accountId)
    await pool.query('update vault.console_links set subject_id = $1 where subject_id = $2', [
      ann.staffId,
      accountId,
    ])
    assert.equal((await pressLink(consoleBrowser(app), link)).status, 409)
    assert.match((await vaultFindings(app)).join(), /vault.console_links holds \w+ of stf_/)
    await pool.query('delete from vault.console_links')
  })

  await t.test('links lead only to addresses that the service wrote', async () => {
    assert.equal(await readConsoleAddress(core), origin)
    await edited(
      app,
      'work.console_address',
      (query) => query(`update work.console_address set origin = 'https://thief.example'`),
      async () => {
        assert.equal(await readConsoleAddress(core), null)
        assert.match(
          (await vaultFindings(app)).join(),
          /work.console_address holds https:\/\/thief.example, which the service has not written so/,
        )
      },
    )
    assert.equal(await readConsoleAddress(core), origin)
  })

  await t.test('a changed e-mail gets no link, and names no account and no member of staff', async () => {
    const { accountId, email } = await app.customer({ email: 'rich@example.com', cents: 10_000 })
    const { accounts } = app
    await edited(
      app,
      'vault.accounts',
      (query) =>
        query(`update vault.accounts set email = 'thief@example.com' where account_id = $1`, [accountId]),
      async () => {
        const { rows: before } = await pool.query(
          'select count(*) from vault.console_links where subject_id is not null',
        )
        await consoleBrowser(app).post('/console/sign-in', { email: 'thief@example.com' })
        const { rows: after } = await pool.query(
          'select count(*) from vault.console_links where subject_id is not null',
        )
        assert.deepEqual(after, before, 'the link that was made opens no session')
        assert.equal(await accounts.byEmail('thief@example.com', operator), null)
        assert.match((await vaultFindings(app)).join(), /AccountCreated.*vault.accounts holds another e-mail/)
      },
    )
    await consoleBrowser(app).post('/console/sign-in', { email })
    assert.ok(await letterTo(app, email))
    await edited(
      app,
      'vault.staff',
      (query) =>
        query(`update vault.staff set email = 'mal@staff.example' where staff_id = $1`, [bob.staffId]),
      async () => {
        const member = await claimStaff(pool, 'mal@staff.example')
        const granted = await createPeople(core).grant(member, 'finance', operator)
        assert.deepEqual(granted, { outcome: 'refused', refusal: { code: 'email_changed' } })
        assert.match((await vaultFindings(app)).join(), /StaffRoleGranted.*vault.staff holds another e-mail/)
      },
    )
  })

  await t.test('an exchanged hash of a finance token opens no books', async () => {
    const issue = { name: 'books', expiresAtMs: null }
    const issued = await createFinanceTokenService(core).issue(issue, operator)
    assert.ok(issued.outcome === 'done')
    const books = '/finance/v1/trial-balance'
    const read = async (key: string) =>
      (await fetch(`${app.baseUrl}${books}`, { headers: { authorization: `Bearer ${key}` } })).status
    const insiders = financeTokenForm.generate()
    await edited(
      app,
      'vault.finance_tokens',
      (query) => query('update vault.finance_tokens set hash = $1', [financeTokenForm.hash(insiders)]),
      async () => {
        assert.equal(await read(insiders), 401)
        assert.match((await vaultFindings(app)).join(), /FinanceTokenIssued.*another hash or salt/)
      },
    )
    assert.equal(await read(issued.key), 200)
    assert.equal(await read(insiders), 401)
  })
})

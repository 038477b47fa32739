import assert from 'node:assert/strict'
import { createServer } from 'node:net'
import { test } from 'node:test'
import { createLogger } from '../../../src/platform/http/logging.ts'
import { createMailer } from '../../../src/platform/outgoing/mailer.ts'
import { startSmtp } from '../../../src/sandbox/mailbox.ts'
import { consoleBrowser, pressLink } from '../../support/console.ts'
import { operate } from '../../support/operator.ts'
import { testApp } from '../../support/test-app.ts'
import { until } from '../../support/until.ts'

const pathOf = (url: string): string => new URL(url).pathname + new URL(url).search

test('accounts sign-in-link prints a link to this server, valid once', async (t) => {
  const app = await testApp(t, { own: 'file' })
  const { accountId, email } = await app.customer({ email: 'vera@example.com', cents: 10_000 })
  for (const who of [accountId, email]) {
    const { out, code } = await operate(['accounts', 'sign-in-link', who, '--json'], app.env)
    assert.equal(code, 0)
    const { url } = JSON.parse(out) as { url: string }
    assert.equal(new URL(url).origin, `http://localhost:${new URL(app.baseUrl).port}`)
    assert.equal((await pressLink(consoleBrowser(app), pathOf(url))).to, '/console')
    assert.equal((await pressLink(consoleBrowser(app), pathOf(url))).status, 409)
  }
  const unknown = await operate(['accounts', 'sign-in-link', 'unknown@example.com', '--json'], app.env)
  assert.deepEqual([unknown.code, JSON.parse(unknown.out).code], [2, 'not_found'])

  await t.test(
    'staff are granted, listed and revoked; a staff link opens only the passkey page',
    async () => {
      const staff = async (...args: readonly string[]) =>
        JSON.parse((await operate(['staff', ...args, '--json'], app.env)).out)
      const { staffId, url, changed } = await staff(
        'grant',
        '--email',
        'ops@example.com',
        '--role',
        'finance',
      )
      assert.equal(changed, true)
      const browser = consoleBrowser(app)
      assert.equal((await pressLink(browser, pathOf(url))).to, '/console')
      assert.equal((await browser.get('/console')).to, '/console/passkeys')
      for (const path of ['/console/staff', '/console/orders', '/console/keys'])
        assert.equal((await browser.get(path)).to, '/console/passkeys', path)
      assert.equal(
        (await staff('grant', '--email', 'OPS@example.com', '--role', 'operator')).staffId,
        staffId,
      )
      const { staff: members } = await staff('list')
      assert.deepEqual(
        members.map(({ roles, passkeys }: { roles: string[]; passkeys: number }) => [roles, passkeys]),
        [[['finance', 'operator'], 0]],
      )
      assert.deepEqual((await staff('revoke', 'ops@example.com', '--role', 'finance')).revoked, ['finance'])
      assert.deepEqual((await staff('revoke', staffId)).revoked, ['operator'])
      assert.equal((await browser.get('/console/passkeys')).status, 303)
      assert.equal((await staff('sign-in-link', staffId)).code, 'no_role')
      const wrong = await operate(['staff', 'grant', '--email', 'ops@example.com', '--role', 'root'], app.env)
      assert.equal(wrong.code, 2)
    },
  )
})

test('without a mail server the page says so, and no e-mail is queued', async (t) => {
  const app = await testApp(t, { own: true, settings: { FAREBOX_SANDBOX: 'off' } })
  const page = await consoleBrowser(app).get('/console/sign-in')
  assert.match(page.html, /This service sends no mail/)
  assert.doesNotMatch(page.html, /name="email"/)
  assert.equal((await consoleBrowser(app).post('/console/sign-in', { email: 'a@example.com' })).status, 400)
})

test('a mail server that refuses or is down is retried, and the content of the e-mail is never logged', async (t) => {
  const letter = { to: 'ann@example.com', subject: 'A letter', text: 'https://secret.example/link\n' }
  const lines: string[] = []
  const logger = createLogger('debug', { write: (line: string) => void lines.push(line) })
  let refusals = 1
  const taken: string[] = []
  const smtp = await startSmtp(async ({ data, to }) => {
    if (refusals-- > 0) throw new Error('not now')
    taken.push(`${to.join()} ${data}`)
  })
  t.after(() => smtp.close())
  const mailer = createMailer({ smtp: smtp.url, from: 'Shop <shop@example.com>', logger })
  t.after(() => mailer.close())
  mailer.send(letter)
  await until(() => taken.length === 1, { timeoutMs: 20_000, what: 'the second attempt' })
  assert.match(taken[0]!, /^ann@example\.com /)
  assert.match(taken[0]!, /From: Shop <shop@example\.com>/)
  assert.match(taken[0]!, /https:\/\/secret\.example\/link/)

  const silent = createServer((socket) => socket.end('554 no\r\n')).listen(0, '127.0.0.1')
  await until(() => silent.listening, { what: 'a port' })
  t.after(() => silent.close())
  const { port } = silent.address() as { port: number }
  const gone = createMailer({ smtp: `smtp://127.0.0.1:${port}`, from: 'shop@example.com', logger })
  gone.send(letter)
  await until(() => lines.filter((line) => line.includes('did not accept')).length >= 2, {
    what: 'a warning',
  })
  await gone.close()
  assert.doesNotMatch(lines.join(''), /secret\.example|ann@example/)
})

test('no input can inject a mail header', async (t) => {
  const taken: string[] = []
  const smtp = await startSmtp(async ({ data, to }) => void taken.push(`${to.join()}\n${data}`))
  t.after(() => smtp.close())
  const logger = createLogger('silent')
  const mailer = createMailer({ smtp: smtp.url, from: 'shop@example.com', logger })
  t.after(() => mailer.close())
  mailer.send({
    to: 'ann@example.com',
    subject: 'Hi\r\nBcc: eve@example.com',
    text: '.\r\n.dots\r\n',
  })
  await until(() => taken.length === 1, { what: 'the letter' })
  assert.doesNotMatch(taken[0]!, /^Bcc:/m)
  assert.match(taken[0]!, /\n\.\r\n\.dots/)
})

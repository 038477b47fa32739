import assert from 'node:assert/strict'
import { once } from 'node:events'
import { createServer as createHttpsServer } from 'node:https'
import type { AddressInfo } from 'node:net'
import { after, before, describe, type TestContext, test } from 'node:test'
import type { Browser } from 'playwright-core'
import { launchBrowser, openPage, pictureOf } from '../support/browser.ts'
import { atEnd } from '../support/cleanup.ts'
import { until } from '../support/until.ts'
import { selfSigned } from './support/certificate.ts'
import { startGateway, type TestGateway } from './support/gateway.ts'
import { exhausted, password, username } from './support/memory-ports.ts'
import { httpTarget } from './support/targets.ts'

const picture =
  '<svg xmlns="http://www.w3.org/2000/svg" width="8" height="8"><rect width="8" height="8"/></svg>'
const pictures = 30
const bodyBytes = 3_000_000

/** A page with pictures, a body of some megabytes and an answer to a form, as sites have them. */
const site = `<!doctype html><title>a site</title>
${Array.from({ length: pictures }, (_, n) => `<img src="/picture?${n}" alt="">`).join('\n')}
<p id="body"></p><p id="posted"></p>
<script>
  fetch('/body').then((answer) => answer.arrayBuffer()).then((bytes) => { document.querySelector('#body').textContent = bytes.byteLength })
  fetch('/posted', { method: 'POST', body: 'x'.repeat(500000) }).then((answer) => answer.text()).then((text) => { document.querySelector('#posted').textContent = text })
</script>`

const serveSite: import('node:http').RequestListener = (request, response) => {
  const { pathname } = new URL(request.url ?? '/', 'http://site')
  const send = (type: string, body: string | Buffer): void => {
    response.setHeader('content-type', type)
    response.end(body)
  }
  if (pathname === '/') send('text/html', site)
  else if (pathname === '/picture') send('image/svg+xml', picture)
  else if (pathname === '/body') send('application/octet-stream', Buffer.alloc(bodyBytes, 'x'))
  else {
    let bytes = 0
    request.on('data', ({ length }: Buffer) => {
      bytes += length
    })
    request.once('end', () => send('text/plain', `${bytes} bytes`))
  }
}

describe('a browser that uses the gateway', () => {
  const ends: (() => unknown)[] = []
  const held = { after: (end: () => unknown) => void ends.unshift(end) } as unknown as TestContext
  let world: TestGateway
  let browser: Browser

  before(async () => {
    world = await startGateway(held)
    browser = await launchBrowser(held, {
      proxy: { server: `http://127.0.0.1:${world.port}`, username, password },
    })
  })
  after(async () => {
    for (const end of ends) await end()
  })

  /** Loads the site and waits until it has all its resources. */
  const loads = async (url: string, options: Parameters<typeof openPage>[1] = {}): Promise<void> => {
    const { context, page, complaints } = await openPage(browser, options)
    await page.goto(url, { waitUntil: 'load' })
    await page.waitForFunction(
      "document.querySelector('#body').textContent !== '' && document.querySelector('#posted').textContent !== ''",
    )
    assert.equal(await page.textContent('#body'), String(bodyBytes))
    assert.equal(await page.textContent('#posted'), '500000 bytes')
    const broken = await page.evaluate(
      '[...document.images].filter((each) => each.naturalWidth === 0).length',
    )
    assert.equal(broken, 0)
    assert.ok((await pictureOf(page)).length > 1_000)
    assert.deepEqual(complaints, [])
    await context.close()
  }
  const attemptsDuring = async (work: () => Promise<void>) => {
    world.access.attempts.length = 0
    const before = { ...world.spending.taken }
    await work()
    const { up, down } = world.spending.taken
    assert.ok(up - before.up > 500_000 && down - before.down > bodyBytes, 'what passed was counted')
    return world.access.attempts
  }

  test('with credentials loads a site over plain HTTP', async (t) => {
    const { port } = await httpTarget(t, serveSite)
    const attempts = await attemptsDuring(() => loads(`http://127.0.0.1:${port}/`))
    // It sends no credentials first, as browsers do, and gets 407.
    assert.equal(attempts[0]?.credentials, null)
    assert.ok(
      attempts.filter(({ credentials }) => credentials !== null).every(({ protocol }) => protocol === 'http'),
    )
  })

  test('loads a site over HTTPS, in tunnels', async (t) => {
    const server = createHttpsServer(selfSigned(), serveSite)
    server.listen(0, '127.0.0.1')
    await once(server, 'listening')
    atEnd(t, () => {
      server.closeAllConnections()
      server.close()
    })
    const { port } = server.address() as AddressInfo
    const attempts = await attemptsDuring(() =>
      loads(`https://localhost:${port}/`, { ignoreHTTPSErrors: true }),
    )
    assert.ok(attempts.length > 0 && attempts.every(({ protocol }) => protocol === 'connect'))
  })

  test('loads a site by SOCKS5, from an address that needs no credentials', async (t) => {
    const { port } = await httpTarget(t, serveSite)
    world.access.answer = () => null
    const attempts = await attemptsDuring(() =>
      loads(`http://localhost:${port}/`, { proxy: { server: `socks5://127.0.0.1:${world.port}` } }),
    )
    assert.ok(attempts.length > 0 && attempts.every(({ protocol }) => protocol === 'socks5'))
  })

  test('sees that the traffic is used up', async (t) => {
    const { port } = await httpTarget(t, serveSite)
    world.access.answer = () => exhausted
    const { context, page } = await openPage(browser)
    const answer = await page.goto(`http://127.0.0.1:${port}/`)
    assert.equal(answer?.status(), 466)
    assert.match((await page.textContent('body')) ?? '', /traffic of the plan is used up/)
    await assert.rejects(page.goto(`https://127.0.0.1:${port}/`), /ERR_TUNNEL_CONNECTION_FAILED/)
    await context.close()
  })

  test('leaves nothing open when it ends', async () => {
    await browser.close()
    await until(() => world.gateway.connections === 0 && world.access.open === 0)
  })
})

import { execFile } from 'node:child_process'
import { access, mkdir, readFile, rename, rm, writeFile } from 'node:fs/promises'
import { dirname, join } from 'node:path'
import type { TestContext } from 'node:test'
import { fileURLToPath } from 'node:url'
import { promisify } from 'node:util'
import {
  type Browser,
  type BrowserContext,
  type BrowserContextOptions,
  chromium,
  type Page,
} from 'playwright-core'
import { atEnd } from './cleanup.ts'

const run = promisify(execFile)

const packageFolder = join(dirname(fileURLToPath(import.meta.resolve('@sparticuz/chromium'))), '..')
const cacheFolder = join(import.meta.dirname, '../../node_modules/.cache/farebox-tests')

/**
 * The package unpacks into the temporary folder, and uses any `chromium` that it finds there: it gets its own
 * folder.
 */
const unpackScript = "import chromium from '@sparticuz/chromium'; await chromium.executablePath()"
/** On these machines it unpacks the libraries too that a small system lacks. */
const withLibraries = 'AWS_Lambda_nodejs24.x'

const fontsConfig = (folder: string): string =>
  `<?xml version="1.0"?><fontconfig><dir>${folder}/fonts/fonts</dir><cachedir>${folder}/fonts-cache</cachedir></fontconfig>`

/** Unpacks the browser once for each version. Files that need it at the same time each unpack it; the first one's stays. */
const ensureUnpacked = async (): Promise<string> => {
  const { version } = JSON.parse(await readFile(join(packageFolder, 'package.json'), 'utf8')) as {
    readonly version: string
  }
  const folder = join(cacheFolder, `chromium-${version}`)
  const exists = (): Promise<boolean> =>
    access(folder).then(
      () => true,
      () => false,
    )
  if (await exists()) return folder
  const half = `${folder}.${process.pid}`
  await mkdir(half, { recursive: true })
  await run(process.execPath, ['--input-type=module', '--eval', unpackScript], {
    cwd: import.meta.dirname,
    env: { PATH: process.env.PATH, HOME: half, TMPDIR: half, AWS_EXECUTION_ENV: withLibraries },
  })
  await writeFile(join(half, 'fonts.conf'), fontsConfig(folder))
  try {
    await rename(half, folder)
  } catch (error) {
    await rm(half, { recursive: true })
    if (!(await exists())) throw error
  }
  return folder
}

/**
 * Our arguments in addition to Playwright's. Those of the package itself switch the protection between sites
 * off.
 */
const browserArgs = ['--no-sandbox', '--no-zygote', '--disable-gpu', '--font-render-hinting=none']

export type BrowserOptions = {
  /** `--proxy-server`, and how to sign in there. Loopback goes through it too. */
  readonly proxy?: { readonly server: string; readonly username?: string; readonly password?: string }
}

/** A Chromium from an npm package, which needs nothing of the system. It ends with the test. */
export const launchBrowser = async (t: TestContext, { proxy }: BrowserOptions = {}): Promise<Browser> => {
  const folder = await ensureUnpacked()
  const executablePath = join(folder, 'chromium')
  const env = { PATH: process.env.PATH ?? '', HOME: folder, FONTCONFIG_FILE: join(folder, 'fonts.conf') }
  const startsAlone = await run(executablePath, ['--version'], { env }).then(
    () => true,
    () => false,
  )
  const browser = await chromium.launch({
    executablePath,
    args: browserArgs,
    env: startsAlone ? env : { ...env, LD_LIBRARY_PATH: join(folder, 'al2023/lib') },
    ...(proxy === undefined ? {} : { proxy }),
  })
  atEnd(t, () => browser.close())
  return browser
}

export type Visit = {
  readonly context: BrowserContext
  readonly page: Page
  /** Problems of its pages: errors of scripts and of the console, violations of policies among them. */
  readonly complaints: readonly string[]
}

/**
 * A page in a separate context with a fixed place and time: pictures and formats are the same on every
 * machine.
 */
export const openPage = async (browser: Browser, options: BrowserContextOptions = {}): Promise<Visit> => {
  const context = await browser.newContext({
    locale: 'en-US',
    timezoneId: 'UTC',
    viewport: { width: 1280, height: 800 },
    ...options,
  })
  // A loaded machine is slow, not wrong.
  context.setDefaultTimeout(120_000)
  const complaints: string[] = []
  context.on('console', (message) => {
    if (message.type() === 'error') complaints.push(message.text())
  })
  context.on('weberror', (error) => void complaints.push(String(error.error())))
  return { context, page: await context.newPage(), complaints }
}

/** The whole page as a PNG, with nothing that moves on it. */
export const pictureOf = (page: Page): Promise<Buffer> =>
  page.screenshot({ fullPage: true, animations: 'disabled', caret: 'hide' })

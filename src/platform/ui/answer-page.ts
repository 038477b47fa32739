import type { Readable } from 'node:stream'
import { z } from 'zod'
import type { RefusalPage } from '../http/answer.ts'
import { ApiError } from '../http/errors.ts'
import { type Route, route } from '../http/route.ts'
import { type Assets, assetFolder } from './assets.ts'
import { type FrameContext, framed, noNavigation, pagePolicy, type View } from './frame.ts'
import { type Html, html } from './html.ts'
import { idText } from './text.ts'

/** The message of a refusal as a sentence. */
export const toSentence = (message: string): string =>
  `${message.slice(0, 1).toUpperCase()}${message.slice(1)}.`

/** The message of a refusal in a form. The idempotency key is hidden: the form was sent, changed and sent again. */
export const formRefusalText = ({ code, message }: ApiError): string =>
  code === 'idempotency_conflict'
    ? 'This form was sent before with other values. Check whether that was done before you send it again.'
    : toSentence(message)

/**
 * The text and the status of a form's answer to a refusal that the API would give as well.
 * @throws any other error, and `not_found`, which has a page of its own
 */
export const refusalOf = (
  error: unknown,
): { readonly text: string; readonly status: 400 | 409 | 429; readonly code: string } => {
  if (!(error instanceof ApiError) || error.status >= 500 || error.code === 'not_found') throw error
  const { status, code } = error
  return { text: formRefusalText(error), status: status === 409 || status === 429 ? status : 400, code }
}

/**
 * The headers of every page, in addition to those of every answer. The browser must send the origin of the console's
 * own forms.
 */
export const pageHeaders = {
  'content-security-policy': pagePolicy,
  'referrer-policy': 'same-origin',
  'cross-origin-opener-policy': 'same-origin',
  'cross-origin-resource-policy': 'same-origin',
} as const

const text = { mediaType: 'text/html', example: '' } as const

/** The declared answers of pages. */
export const pageResponses = {
  200: { description: 'The page.', text },
  303: { description: 'The next page.' },
  307: { description: 'The same page at the console’s own address.' },
  400: { description: 'The form with its problems.', text },
  403: { description: 'This person has no access.', text },
  404: { description: 'There is no such page.', text },
  409: { description: 'The form: its action is not possible now.', text },
  421: { description: 'The console has another address.', text },
  429: { description: 'The form: it was sent too often.', text },
} as const

export type PageAnswer = {
  readonly status: keyof typeof pageResponses
  readonly headers: Readonly<Record<string, string | readonly string[]>>
  readonly text?: string | Readable
  /** The media type of a file. Left out: that of a page. */
  readonly mediaType?: string
}

/** A page without navigation. */
export const standalonePage = (title: string, body: Html): View => ({ title, body, standalone: true })

export const notAllowed: View = {
  title: 'No access',
  body: html`<div class="empty"><p>Your role has no access to this page.</p><p><a href="/console">Go to your pages</a></p></div>`,
}

export const notFound: View = {
  title: 'Not found',
  body: html`<div class="empty"><p>This page does not exist, or it belongs to another account.</p><p><a href="/console">Go to the overview</a></p></div>`,
}

const titles: Readonly<Record<number, string>> = {
  404: 'Not found',
  405: 'Method not allowed',
  429: 'Too many requests',
  503: 'Busy: try again in a moment',
}

/** Any refusal of the server under the console, as a page. */
export const refusalPage =
  (pageContext: FrameContext) =>
  ({ status, message }: ApiError, requestId: string): RefusalPage => ({
    headers: pageHeaders,
    html: framed(
      standalonePage(
        titles[status] ?? (status < 500 ? 'Request refused' : 'Internal error'),
        html`<p>${toSentence(message)}</p>
<p><a href="/console">Go to the console</a></p>
<p class="soft">Request ${idText(requestId)}</p>`,
      ),
      pageContext,
    ),
  })

/** The frame of a page. `more` replaces the defaults. */
export const frameContext = (
  dependencies: { readonly assets: Assets; readonly name: string },
  more: Partial<FrameContext> = {},
): FrameContext => ({
  assets: dependencies.assets,
  theme: null,
  zone: null,
  path: '/console',
  flash: null,
  navigation: noNavigation,
  person: null,
  isStaff: false,
  viewing: null,
  origin: null,
  site: null,
  name: dependencies.name,
  ...more,
})

/**
 * `GET /console/assets/{file}`: the styles and scripts of pages. Browsers cache them for a year; the name changes with
 * the content.
 */
export const assetRoute = (dependencies: { readonly assets: Assets; readonly name: string }): Route =>
  route({
    method: 'GET',
    path: `${assetFolder}/{file}`,
    operationId: 'getConsoleAsset',
    summary: 'A style or a script of the console',
    description: 'Its name changes with its content.',
    tag: 'Console',
    access: 'public',
    writes: false,
    hidden: true,
    params: z.object({ file: z.string().max(100) }),
    responses: {
      200: { description: 'The file.', text: { mediaType: 'text/css', example: '' } },
      404: { description: 'No file has this name.', text: { mediaType: 'text/html', example: '' } },
    },
    errors: [],
    handler: async ({ params }) => {
      const asset = dependencies.assets.find(params.file)
      return asset === null
        ? { status: 404, text: framed(notFound, frameContext(dependencies)), headers: pageHeaders }
        : {
            status: 200,
            text: asset.text,
            mediaType: asset.mediaType,
            headers: {
              'cache-control': 'public, max-age=31536000, immutable',
              'cross-origin-resource-policy': 'same-origin',
            },
          }
    },
  })

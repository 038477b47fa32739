import type { Readable } from 'node:stream'
import type { RefusalPage } from '../../platform/http/answer.ts'
import type { ApiError } from '../../platform/http/errors.ts'
import type { Html } from '../../platform/pages/html.ts'
import { html } from '../../platform/pages/html.ts'
import type { Assets } from '../frame/assets.ts'
import { framed, pagePolicy, type Surroundings, type View } from '../frame/frame.ts'
import { idText } from '../frame/text.ts'
import { sentenceOf } from './refusal.ts'

/** The headers of every page, beside those of every answer. Our own forms are to say where they come from. */
export const pageHeaders = {
  'content-security-policy': pagePolicy,
  'referrer-policy': 'same-origin',
  'cross-origin-opener-policy': 'same-origin',
  'cross-origin-resource-policy': 'same-origin',
} as const

const text = { mediaType: 'text/html', example: '' } as const

/** The answers that pages give. */
export const pageResponses = {
  200: { description: 'The page.', text },
  303: { description: 'Where to go on.' },
  307: { description: 'The same page at the console’s own address.' },
  400: { description: 'The form again, with what is wrong.', text },
  403: { description: 'The page is not for this person.', text },
  404: { description: 'There is no such page.', text },
  409: { description: 'The form again: what it asks for is not possible now.', text },
  421: { description: 'The console has another address.', text },
  429: { description: 'The form again: it was sent too often.', text },
} as const

export type PageAnswer = {
  readonly status: keyof typeof pageResponses
  readonly headers: Readonly<Record<string, string | readonly string[]>>
  readonly text?: string | Readable
  /** Of a file; left out: that of a page. */
  readonly mediaType?: string
}

/** What a page without a person says. */
export const alonePage = (title: string, body: Html): View => ({ title, body, alone: true })

export const notAllowed: View = {
  title: 'Not for you',
  body: html`<div class="empty"><p>This page is for people with another role.</p><p><a href="/console">To your own pages</a></p></div>`,
}

export const notFound: View = {
  title: 'Nothing here',
  body: html`<div class="empty"><p>There is nothing at this address, or it is not yours.</p><p><a href="/console">To the overview</a></p></div>`,
}

const titles: Readonly<Record<number, string>> = {
  404: 'Nothing here',
  405: 'This page takes no such request',
  429: 'Too many requests',
  503: 'Busy: try again in a moment',
}

/** Any refusal of the server under the console, as a page. */
export const refusalPage =
  (around: Surroundings) =>
  ({ status, message }: ApiError, requestId: string): RefusalPage => ({
    headers: pageHeaders,
    html: framed(
      alonePage(
        titles[status] ?? (status < 500 ? 'This did not work' : 'Something broke'),
        html`<p>${sentenceOf(message)}</p>
<p><a href="/console">To the console</a></p>
<p class="soft">Request ${idText(requestId)}</p>`,
      ),
      around,
    ),
  })

/** What a page shows around itself. */
export const surroundings = (
  deps: { readonly assets: Assets; readonly name: string },
  more: Partial<Surroundings> = {},
): Surroundings => ({
  style: deps.assets.style,
  theme: null,
  zone: null,
  path: '/console',
  flash: null,
  navigation: [],
  person: null,
  viewing: null,
  origin: null,
  site: null,
  name: deps.name,
  ...more,
})

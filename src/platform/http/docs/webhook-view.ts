import type { Html } from '../../pages/html.ts'
import { html, nothing } from '../../pages/html.ts'
import type { JsonSchema } from '../json-schema.ts'
import type { OpenApiDocument } from '../openapi/document.ts'
import { jsonView } from './json-view.ts'
import { markdown } from './markdown.ts'
import type { Follow, Operation } from './operation-view.ts'
import { fieldsView } from './schema-view.ts'

type Item = { readonly post: Operation }

const eventView = (name: string, { post }: Item, follow: Follow): Html => {
  const media = post.requestBody?.content['application/json']
  if (media === undefined) return nothing
  const headers = (post.parameters ?? []).map(
    ({ name: header, description }) =>
      html`<tr><th scope="row"><code>${header}</code></th><td>${markdown(description ?? '')}</td></tr>`,
  )
  return html`<article class="operation" id="${post.operationId}" data-find="${`${name} ${post.summary}`.toLowerCase()}">
<div class="says">
<h3><a href="#${post.operationId}">${post.summary}</a></h3>
<p class="path"><code>${name}</code></p>
${markdown(post.description)}
<h4>Headers</h4><table class="fields"><tbody>${headers}</tbody></table>
<h4>Body</h4>${fieldsView(follow(media.schema as JsonSchema & { $ref?: string }))}
</div>
<div class="shows">${jsonView(media.example)}</div>
</article>`
}

/** The events that are sent to receivers; nothing where none is. */
export const webhooksView = (document: OpenApiDocument, follow: Follow): Html => {
  const webhooks = Object.entries((document.webhooks ?? {}) as Readonly<Record<string, Item>>)
  if (webhooks.length === 0) return nothing
  return html`<section class="tag">
<h2 id="events">Events</h2>
${markdown('What is sent to webhook endpoints. Verify the signature over the raw bytes before you parse them, compare in constant time, refuse a `created` older than five minutes, and de-duplicate on `webhook-id`: delivery is at least once.')}
${webhooks.map(([name, item]) => eventView(name, item, follow))}
</section>`
}

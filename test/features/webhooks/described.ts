import assert from 'node:assert/strict'
import { Ajv2020 } from 'ajv/dist/2020.js'
import addFormats from 'ajv-formats'
import type { Document } from '../../support/http.ts'

/** Checks bodies against the document's `webhooks`, and returns its examples. */
export const describedBy = (document: Document & { readonly webhooks?: unknown }) => {
  const ajv = new Ajv2020({ strict: false, allErrors: true })
  addFormats.default(ajv)
  ajv.addSchema({ $id: 'document', components: document.components })
  // biome-ignore lint/suspicious/noExplicitAny: an OpenAPI document
  const webhooks = document.webhooks as Readonly<Record<string, any>>
  const mediaOf = (name: string) => webhooks[name].post.requestBody.content['application/json']
  return {
    names: Object.keys(webhooks),
    exampleOf: (name: string) => mediaOf(name).example,
    check: (name: string, body: unknown): void => {
      const text = JSON.stringify(mediaOf(name).schema).replaceAll('"#/components/', '"document#/components/')
      const validate = ajv.compile(JSON.parse(text))
      assert.ok(validate(body), `${name}: ${ajv.errorsText(validate.errors)}\n${JSON.stringify(body)}`)
    },
    headersOf: (name: string): readonly string[] =>
      webhooks[name].post.parameters.map((parameter: { name: string }) => parameter.name.toLowerCase()),
  }
}

import type { OpenApiDocument } from '../openapi/document.ts'
export const docsPage = (_document: OpenApiDocument): { html: string; policy: string } => ({
  html: '',
  policy: '',
})

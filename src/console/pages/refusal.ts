import { ApiError } from '../../platform/http/errors.ts'

/** The message of a refusal as a sentence. */
export const sentenceOf = (message: string): string =>
  `${message.slice(0, 1).toUpperCase()}${message.slice(1)}.`

/**
 * What a form says of a refusal that the API would answer as well, and the status of its answer.
 * @throws whatever else it is, and `not_found`, which is a page of its own
 */
export const refusalOf = (error: unknown): { readonly text: string; readonly status: 400 | 409 | 429 } => {
  if (!(error instanceof ApiError) || error.status >= 500 || error.code === 'not_found') throw error
  const { status } = error
  return { text: sentenceOf(error.message), status: status === 409 || status === 429 ? status : 400 }
}

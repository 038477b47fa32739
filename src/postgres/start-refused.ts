/** The start is to stop with this message, which says what to do; a stack would only hide it. */
export class StartRefused extends Error {
  override readonly name = 'StartRefused'
}

/** A JSON body as it is sent: a newline ends it, so that a terminal begins a line of its own behind it. */
export const jsonText = (body: unknown): string => `${JSON.stringify(body)}\n`

/** A JSON body that was written before: sent as it is. The type says what it was written from. */
export class JsonBytes<Body> {
  readonly bytes: Buffer
  /** Never set: it carries the type of the body. */
  declare readonly body: Body

  private constructor(bytes: Buffer) {
    this.bytes = bytes
  }

  static of<Body>(body: Body): JsonBytes<Body> {
    return new JsonBytes(Buffer.from(jsonText(body), 'utf8'))
  }

  /** The bytes of an earlier one. */
  static again<Body>(bytes: Buffer): JsonBytes<Body> {
    return new JsonBytes(bytes)
  }
}

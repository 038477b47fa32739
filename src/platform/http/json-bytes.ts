/** A JSON body as it is sent. It ends with a newline, so that a terminal starts a new line after it. */
export const jsonText = (body: unknown): string => `${JSON.stringify(body)}\n`

/** A JSON body that is already serialized and is sent unchanged. `Body` is the type of the serialized value. */
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

  /** Wraps bytes that an earlier `JsonBytes` contained. */
  static again<Body>(bytes: Buffer): JsonBytes<Body> {
    return new JsonBytes(bytes)
  }
}

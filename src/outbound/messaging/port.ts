/** What became of a message. `later` and `never` say why, without a name, a chat or a secret. */
export type SendOutcome =
  | { readonly kind: 'sent' }
  /** Not taken now: to be sent again, at the earliest after `afterS` seconds where the provider says so. */
  | { readonly kind: 'later'; readonly afterS: number | null; readonly why: string }
  /** The chat has another id from now on. */
  | { readonly kind: 'moved'; readonly chatId: string }
  /** Never taken: the chat is gone, or does not want to hear of the bot. */
  | { readonly kind: 'never'; readonly why: string }

/** A reseller's messaging bot. It never rejects. */
export type Messenger = {
  send(message: { readonly chatId: string; readonly text: string }): Promise<SendOutcome>
}

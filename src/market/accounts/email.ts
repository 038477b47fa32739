const form = /^[^\s@\p{Cc}\p{Cs}]{1,64}@[^\s@\p{Cc}\p{Cs}]{1,189}$/u

/** Whether the text can be an e-mail address: only a message that arrives proves more (RFC 5321, 4.5.3.1 lengths). */
export const isEmail = (text: string): boolean => form.test(text)

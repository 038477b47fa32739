/**
 * A button that requests a passkey from the browser. The options are in `data-options`. The answer is sent with the
 * form around the button, so nothing is fetched. Without script, the button stays hidden and the page shows
 * instructions.
 */
type Ids = { id: string; type: 'public-key'; transports?: AuthenticatorTransport[] }[]
type Options = {
  challenge: string
  user?: { id: string; name: string; displayName: string }
  excludeCredentials?: Ids
  allowCredentials?: Ids
}

const bytesOf = (text: string): Uint8Array<ArrayBuffer> => {
  const padded = text.replace(/-/g, '+').replace(/_/g, '/')
  return Uint8Array.from(atob(padded), (char) => char.charCodeAt(0))
}

const textOf = (bytes: ArrayBuffer): string =>
  btoa(String.fromCharCode(...new Uint8Array(bytes)))
    .replace(/\+/g, '-')
    .replace(/\//g, '_')
    .replace(/=/g, '')

const withDecodedIds = (ids: Ids | undefined) => ids?.map((each) => ({ ...each, id: bytesOf(each.id) }))

const answerOf = (credential: PublicKeyCredential): unknown => {
  const { id, rawId, type, response } = credential
  const common = { id, rawId: textOf(rawId), type, clientExtensionResults: {} }
  if (response instanceof AuthenticatorAttestationResponse)
    return {
      ...common,
      response: {
        clientDataJSON: textOf(response.clientDataJSON),
        attestationObject: textOf(response.attestationObject),
        transports: response.getTransports(),
      },
    }
  const { clientDataJSON, authenticatorData, signature, userHandle } =
    response as AuthenticatorAssertionResponse
  return {
    ...common,
    response: {
      clientDataJSON: textOf(clientDataJSON),
      authenticatorData: textOf(authenticatorData),
      signature: textOf(signature),
      ...(userHandle && { userHandle: textOf(userHandle) }),
    },
  }
}

class PasskeyButton extends HTMLElement {
  connectedCallback(): void {
    const button = this.querySelector('button')
    const form = this.closest('form')
    const field = this.querySelector('input')
    if (!button || !form || !field || !('credentials' in navigator)) return
    button.hidden = false
    button.addEventListener('click', (event) => {
      event.preventDefault()
      button.disabled = true
      this.ask()
        .then((answer) => {
          field.value = JSON.stringify(answer)
          form.submit()
        })
        .catch((error: Error) => {
          const statusElement = this.querySelector('[role=status]')
          if (statusElement)
            statusElement.textContent =
              error.name === 'InvalidStateError'
                ? 'This device has a passkey here already.'
                : 'No passkey was used. Try again.'
        })
        .finally(() => {
          button.disabled = false
        })
    })
  }

  async ask(): Promise<unknown> {
    const options = JSON.parse(this.dataset.options ?? '{}') as Options
    const shared = { ...options, challenge: bytesOf(options.challenge) }
    const credential = options.user
      ? await navigator.credentials.create({
          publicKey: {
            ...shared,
            user: { ...options.user, id: bytesOf(options.user.id) },
            excludeCredentials: withDecodedIds(options.excludeCredentials),
          } as unknown as PublicKeyCredentialCreationOptions,
        })
      : await navigator.credentials.get({
          publicKey: {
            ...shared,
            allowCredentials: withDecodedIds(options.allowCredentials),
          } as PublicKeyCredentialRequestOptions,
        })
    return answerOf(credential as PublicKeyCredential)
  }
}

customElements.define('fbx-passkey', PasskeyButton)

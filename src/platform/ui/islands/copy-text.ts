/** A text with a button that copies it. Without script, the button stays hidden and the text can be selected. */
class CopyText extends HTMLElement {
  connectedCallback(): void {
    const button = this.querySelector('button')
    const area = this.querySelector('textarea')
    if (!button || !area || !navigator.clipboard) return
    const label = button.textContent
    button.hidden = false
    button.addEventListener('click', async () => {
      try {
        await navigator.clipboard.writeText(area.value)
        button.textContent = 'Copied'
      } catch {
        // The browser does not allow it. The text is selected, to be copied by hand.
        area.select()
        button.textContent = 'Selected: copy it'
      }
      window.setTimeout(() => {
        button.textContent = label
      }, 2_000)
    })
  }
}

customElements.define('copy-text', CopyText)

import fc from 'fast-check'

// By itself fast-check makes lists of ten entries at most, five on the average, whatever `maxLength` says: histories long
// enough to matter would never be played.
fc.configureGlobal({ ...fc.readConfigureGlobal(), defaultSizeToMaxWhenMaxSpecified: true })

export default fc

// SPDX-License-Identifier: Apache-2.0
pragma solidity ^0.8.28;

import {ERC721} from "@openzeppelin/contracts/token/ERC721/ERC721.sol";
import {ERC721URIStorage} from "@openzeppelin/contracts/token/ERC721/extensions/ERC721URIStorage.sol";
import {ERC721Utils} from "@openzeppelin/contracts/token/ERC721/utils/ERC721Utils.sol";
import {EIP712} from "@openzeppelin/contracts/utils/cryptography/EIP712.sol";
import {Signatures} from "./Signatures.sol";

/// @title Who an agent is: a token with a registration file, an owner and a wallet (ERC-8004).
/// @notice Ids begin with 1. The wallet is what an agent acts and is paid with; it proves that it agrees, and a transfer
/// of the token clears it. Nobody has power over the tokens of others.
contract IdentityRegistry is ERC721URIStorage, EIP712 {
    struct MetadataEntry {
        string metadataKey;
        bytes metadataValue;
    }

    /// @notice What an owner signs to be registered by somebody who pays the gas.
    struct Registration {
        address owner;
        address wallet;
        string agentURI;
        bytes32 nonce;
        uint256 deadline;
    }

    bytes32 private constant AGENT_WALLET_SET_TYPEHASH =
        keccak256("AgentWalletSet(uint256 agentId,address newWallet,address owner,uint256 deadline)");
    bytes32 private constant REGISTRATION_TYPEHASH =
        keccak256("Registration(address owner,address wallet,string agentURI,bytes32 nonce,uint256 deadline)");
    bytes32 private constant WALLET_CONSENT_TYPEHASH =
        keccak256("WalletConsent(address wallet,address owner,bytes32 nonce,uint256 deadline)");

    /// @notice The longest time, in seconds, that a wallet's proof for setAgentWallet is good.
    uint256 public constant MAX_PROOF_AGE = 5 minutes;
    string private constant WALLET_KEY = "agentWallet";
    bytes32 private constant WALLET_KEY_HASH = keccak256(bytes(WALLET_KEY));

    uint256 private _lastId;
    mapping(uint256 agentId => mapping(string key => bytes value)) private _metadata;

    /// @notice Whether an owner's nonce was used to register.
    mapping(address owner => mapping(bytes32 nonce => bool used)) public registrationUsed;

    event Registered(uint256 indexed agentId, string agentURI, address indexed owner);
    event URIUpdated(uint256 indexed agentId, string newURI, address indexed updatedBy);
    event MetadataSet(
        uint256 indexed agentId, string indexed indexedMetadataKey, string metadataKey, bytes metadataValue
    );

    error NotAuthorized(address caller, uint256 agentId);
    error ReservedKey(string key);
    error ZeroWallet();
    error ProofExpired(uint256 deadline);
    error ProofTooLong(uint256 deadline);
    error InvalidWalletProof();
    error InvalidOwnerSignature();
    error RegistrationReused(address owner, bytes32 nonce);

    modifier onlyAuthorized(uint256 agentId) {
        if (!isAuthorizedOrOwner(msg.sender, agentId)) revert NotAuthorized(msg.sender, agentId);
        _;
    }

    constructor() ERC721("AgentIdentity", "AGENT") EIP712("ERC8004IdentityRegistry", "1") {}

    function register() external returns (uint256 agentId) {
        return _register(msg.sender, msg.sender, "", new MetadataEntry[](0));
    }

    function register(string calldata agentURI) external returns (uint256 agentId) {
        return _register(msg.sender, msg.sender, agentURI, new MetadataEntry[](0));
    }

    function register(string calldata agentURI, MetadataEntry[] calldata metadata) external returns (uint256 agentId) {
        return _register(msg.sender, msg.sender, agentURI, metadata);
    }

    /// @notice Registers and names a wallet other than the caller in one step, which the caller pays.
    /// @param walletProof the wallet's signature of WalletConsent, which is good once
    function registerAndBind(
        string calldata agentURI,
        address wallet,
        bytes32 nonce,
        uint256 deadline,
        bytes calldata walletProof
    ) external returns (uint256 agentId) {
        _useRegistration(msg.sender, nonce, deadline);
        _requireConsent(wallet, msg.sender, nonce, deadline, walletProof);
        return _register(msg.sender, wallet, agentURI, new MetadataEntry[](0));
    }

    /// @notice The same for an owner who signs and has somebody else pay. Whoever sends it, the owner gets the token.
    function registerSigned(Registration calldata r, bytes calldata ownerSignature, bytes calldata walletProof)
        external
        returns (uint256 agentId)
    {
        _useRegistration(r.owner, r.nonce, r.deadline);
        bytes32 structHash = keccak256(
            abi.encode(REGISTRATION_TYPEHASH, r.owner, r.wallet, keccak256(bytes(r.agentURI)), r.nonce, r.deadline)
        );
        if (!Signatures.isBy(r.owner, _hashTypedDataV4(structHash), ownerSignature)) revert InvalidOwnerSignature();
        if (r.wallet != r.owner) _requireConsent(r.wallet, r.owner, r.nonce, r.deadline, walletProof);
        return _register(r.owner, r.wallet, r.agentURI, new MetadataEntry[](0));
    }

    function setAgentURI(uint256 agentId, string calldata newURI) external onlyAuthorized(agentId) {
        _setTokenURI(agentId, newURI);
        emit URIUpdated(agentId, newURI, msg.sender);
    }

    function setMetadata(uint256 agentId, string calldata metadataKey, bytes calldata metadataValue)
        external
        onlyAuthorized(agentId)
    {
        _setMetadata(agentId, metadataKey, metadataValue);
    }

    /// @param deadline at most five minutes ahead
    /// @param signature the new wallet's, of AgentWalletSet, by its key or by ERC-1271
    function setAgentWallet(uint256 agentId, address newWallet, uint256 deadline, bytes calldata signature)
        external
        onlyAuthorized(agentId)
    {
        if (newWallet == address(0)) revert ZeroWallet();
        if (block.timestamp > deadline) revert ProofExpired(deadline);
        if (deadline > block.timestamp + MAX_PROOF_AGE) revert ProofTooLong(deadline);
        bytes32 structHash =
            keccak256(abi.encode(AGENT_WALLET_SET_TYPEHASH, agentId, newWallet, ownerOf(agentId), deadline));
        if (!Signatures.isBy(newWallet, _hashTypedDataV4(structHash), signature)) revert InvalidWalletProof();
        _writeWallet(agentId, abi.encodePacked(newWallet));
    }

    function unsetAgentWallet(uint256 agentId) external onlyAuthorized(agentId) {
        _writeWallet(agentId, "");
    }

    function getMetadata(uint256 agentId, string calldata metadataKey) external view returns (bytes memory) {
        return _metadata[agentId][metadataKey];
    }

    /// @notice The wallet of an agent; zero if it has none or there is no such agent.
    function getAgentWallet(uint256 agentId) external view returns (address) {
        return address(bytes20(_metadata[agentId][WALLET_KEY]));
    }

    /// @notice Whether an account may act for an agent. Reverts if there is no such agent.
    function isAuthorizedOrOwner(address spender, uint256 agentId) public view returns (bool) {
        return _isAuthorized(ownerOf(agentId), spender, agentId);
    }

    function _register(address owner, address wallet, string memory agentURI, MetadataEntry[] memory metadata)
        private
        returns (uint256 agentId)
    {
        agentId = ++_lastId;
        _mint(owner, agentId);
        if (bytes(agentURI).length > 0) _setTokenURI(agentId, agentURI);
        emit Registered(agentId, agentURI, owner);
        _writeWallet(agentId, abi.encodePacked(wallet));
        for (uint256 i = 0; i < metadata.length; i++) {
            _setMetadata(agentId, metadata[i].metadataKey, metadata[i].metadataValue);
        }
        // Last, for an owner with code may do anything in it, even give the token away: then nothing of what was written
        // for the first owner may come after.
        ERC721Utils.checkOnERC721Received(msg.sender, address(0), owner, agentId, "");
    }

    function _setMetadata(uint256 agentId, string memory key, bytes memory value) private {
        if (keccak256(bytes(key)) == WALLET_KEY_HASH) revert ReservedKey(key);
        _metadata[agentId][key] = value;
        emit MetadataSet(agentId, key, key, value);
    }

    function _writeWallet(uint256 agentId, bytes memory wallet) private {
        _metadata[agentId][WALLET_KEY] = wallet;
        emit MetadataSet(agentId, WALLET_KEY, WALLET_KEY, wallet);
    }

    /// @dev A new owner must not inherit a wallet that only the old one vouched for.
    function _update(address to, uint256 agentId, address auth) internal override returns (address from) {
        if (_ownerOf(agentId) != address(0)) _writeWallet(agentId, "");
        return super._update(to, agentId, auth);
    }

    function _useRegistration(address owner, bytes32 nonce, uint256 deadline) private {
        if (block.timestamp > deadline) revert ProofExpired(deadline);
        if (registrationUsed[owner][nonce]) revert RegistrationReused(owner, nonce);
        registrationUsed[owner][nonce] = true;
    }

    function _requireConsent(address wallet, address owner, bytes32 nonce, uint256 deadline, bytes calldata proof)
        private
        view
    {
        if (wallet == address(0)) revert ZeroWallet();
        bytes32 structHash = keccak256(abi.encode(WALLET_CONSENT_TYPEHASH, wallet, owner, nonce, deadline));
        if (!Signatures.isBy(wallet, _hashTypedDataV4(structHash), proof)) revert InvalidWalletProof();
    }
}
